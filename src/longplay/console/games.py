"""The list of playable games, available without the emulator.

The list is that of ale-py 0.12; a test compares it with the installed one. Games that
cannot be part of a stream are rejected here by name, before ale-py is called, because
ale-py exits the process on many of them.
"""

from __future__ import annotations

from longplay.errors import ConfigError, UnknownNameError

GAMES = frozenset(
    """
    alien amidar assault asterix asteroids atlantis atlantis2 backgammon bank_heist
    basic_math battle_zone beam_rider berzerk blackjack bowling boxing breakout casino
    centipede chopper_command crazy_climber crossbow darkchambers defender demon_attack
    donkey_kong double_dunk earthworld elevator_action enduro entombed et fishing_derby
    flag_capture freeway frogger frostbite galaxian gopher gravitar hangman
    haunted_house hero human_cannonball ice_hockey jamesbond kaboom kangaroo koolaid
    krull kung_fu_master lost_luggage mario_bros miniature_golf montezuma_revenge
    ms_pacman name_this_game othello phoenix pitfall pitfall2 pong private_eye qbert
    riverraid road_runner robotank seaquest skiing solaris space_invaders star_gunner
    superman surround tennis tetris tic_tac_toe_3d time_pilot trondead turmoil tutankham
    up_n_down venture video_checkers video_chess video_cube video_pinball wizard_of_wor
    word_zapper yars_revenge zaxxon
    """.split()
)

_TWO_PLAYERS = "it is for two players only, and ale-py exits the process on it"
_HEIGHTS = {
    "adventure": 250,
    "air_raid": 250,
    "carnival": 214,
    "journey_escape": 230,
    "keystone_kapers": 250,
    "king_kong": 250,
    "klax": 250,
    "laser_gates": 250,
    "mr_do": 250,
    "pacman": 250,
    "pooyan": 220,
    "sir_lancelot": 250,
    "space_war": 250,
}

REFUSED_GAMES: dict[str, str] = {
    **dict.fromkeys(("combat", "joust", "maze_craze", "warlords"), _TWO_PLAYERS),
    **{
        game: f"its frames are {height} lines high, a stream's are 210"
        for game, height in _HEIGHTS.items()
    },
}


def check_game(game_id: str) -> str:
    """Returns the name if the game can be played.

    Raises:
        ConfigError: The game cannot be played, or the name is unknown.
    """
    if game_id in GAMES:
        return game_id
    if game_id in REFUSED_GAMES:
        raise ConfigError(
            f"games: {game_id!r} cannot be played: {REFUSED_GAMES[game_id]}"
        )
    raise UnknownNameError("game", game_id, GAMES, hint="(`longplay games` lists them)")
