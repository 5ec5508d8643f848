"""DQN in plain PyTorch: plays control and streaming suites.

    longplay check-agent my_agent.py
    longplay run control-smoke-v1 --agent my_agent.py --seed 1000
    longplay run control-v1 --agent my_agent.py --seed 1000 --agent-arg device=cuda

Seeds from 1000 on are for development, a suite's official seeds for results.

Double DQN with n-step returns, a dueling network and a replay of the last decisions.
`init` and `step` are described in docs/agents.md, "The control track", at
https://github.com/longplay/longplay/tree/main/docs.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

SIZE, STACK, CAPACITY, BATCH = 42, 4, 10_000, 32
RETURNS, DISCOUNT, STEP_SIZE, TARGET_SHARE = 5, 0.97, 5e-4, 0.01
FIRST_UPDATE, DECISIONS_PER_UPDATE = 500, 4
# In each visit of a game, the share of random actions falls from 1 to the last one.
LAST_EPSILON, EXPLORING_DECISIONS = 0.05, 3000


class Network(nn.Module):
    """Stacks of grey frames -> the value of each action."""

    def __init__(self, num_actions: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(STACK, 16, 8, 4), nn.LayerNorm([16, 9, 9]), nn.ReLU()),
            *(nn.Conv2d(16, 32, 4, 2), nn.LayerNorm([32, 3, 3]), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(288, 128), nn.LayerNorm(128), nn.ReLU()),
        )
        self.head = nn.Linear(128, 1 + num_actions)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(sample, frame, row, column), bytes -> (sample, action)."""
        outputs = self.head(self.body(images.float() / 255))
        state, actions = outputs[:, :1], outputs[:, 1:]
        return state + actions - actions.mean(dim=1, keepdim=True)


@dataclass
class State:
    """The agent between decisions."""

    arguments: dict[str, Any]
    network: Network
    target: Network
    optimiser: torch.optim.Adam
    generator: torch.Generator
    # The last frames, and after each the action, the reward and whether a game ended;
    # `first` is the number of its episode's first frame. Frames are numbered from 0.
    replay: dict[str, torch.Tensor]
    frames: int = 0
    decisions_of_visit: int = 0


def init(
    observation_shape: tuple[int, int, int],
    num_actions: int,
    seed: int,
    device: str = "cpu",
) -> State:
    """Builds the agent; `device` is given by `--agent-arg`."""
    arguments = dict(locals())
    torch.set_num_threads(1)  # fastest for a small network, and always the same bits
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network, target = (Network(num_actions).to(device) for _ in range(2))
    target.load_state_dict(network.state_dict())
    replay = {
        "images": torch.zeros((CAPACITY, SIZE, SIZE), dtype=torch.uint8),
        "first": torch.zeros(CAPACITY, dtype=torch.int64),
        "actions": torch.zeros(CAPACITY, dtype=torch.int64),
        "rewards": torch.zeros(CAPACITY),
        "is_over": torch.zeros(CAPACITY, dtype=torch.bool),
    }
    optimiser = torch.optim.Adam(network.parameters(), STEP_SIZE)
    generator = torch.Generator().manual_seed(seed)
    return State(arguments, network, target, optimiser, generator, replay)


def step(
    state: State,
    previous_observation: Any,
    observation: Any,
    reward: float,
    info: dict[str, bool],
) -> tuple[State, int, dict[str, float]]:
    """Stores the last transition, chooses an action, and learns every few decisions."""
    is_over = info["terminated"] or info["truncated"]
    if info["truncated"]:  # another game follows
        state.decisions_of_visit = 0
    replay, place = state.replay, state.frames % CAPACITY
    if state.frames:
        replay["rewards"][place - 1] = max(-1.0, min(1.0, reward))
        replay["is_over"][place - 1] = is_over
    is_first = is_over or not state.frames
    replay["images"][place] = shrink(observation)
    replay["first"][place] = state.frames if is_first else replay["first"][place - 1]
    state.frames += 1
    state.decisions_of_visit += 1
    action, metrics = choose(state)
    replay["actions"][place] = action
    if state.frames >= FIRST_UPDATE and state.frames % DECISIONS_PER_UPDATE == 0:
        metrics["loss"] = train(state)
    return state, action, metrics


def shrink(observation: Any) -> torch.Tensor:
    """RGB -> a small grey frame."""
    grey = torch.from_numpy(observation).float().mean(dim=2)
    return functional.adaptive_avg_pool2d(grey[None], SIZE)[0].round().byte()


@torch.no_grad()
def choose(state: State) -> tuple[int, dict[str, float]]:
    """An action, random with the probability ε."""
    done = min(state.decisions_of_visit / EXPLORING_DECISIONS, 1.0)
    epsilon = 1.0 + done * (LAST_EPSILON - 1.0)
    values = state.network(stack(state, torch.tensor([state.frames - 1])))[0]
    action = int(values.argmax())
    if float(torch.rand((), generator=state.generator)) < epsilon:
        action = int(torch.randint(len(values), (), generator=state.generator))
    return action, {"value": float(values[action]), "epsilon": epsilon}


def stack(state: State, numbers: torch.Tensor) -> torch.Tensor:
    """Images that end with these frames; an episode's first frame is repeated."""
    wanted = numbers[:, None] - torch.arange(STACK - 1, -1, -1)
    wanted = wanted.maximum(state.replay["first"][numbers % CAPACITY][:, None])
    return state.replay["images"][wanted % CAPACITY].to(state.arguments["device"])


def train(state: State) -> float:
    """One step of Adam on a batch, then of the target network; returns the loss."""
    replay, device = state.replay, state.arguments["device"]
    oldest = max(state.frames - CAPACITY + STACK, 0)
    newest = state.frames - 1 - RETURNS
    starts = torch.randint(oldest, newest + 1, (BATCH,), generator=state.generator)
    returns, factors = torch.zeros(BATCH), torch.ones(BATCH)
    for k in range(RETURNS):
        place = (starts + k) % CAPACITY
        returns += factors * replay["rewards"][place]
        factors *= DISCOUNT * ~replay["is_over"][place]
    with torch.no_grad():
        following = stack(state, starts + RETURNS)
        picked = state.network(following).argmax(dim=1, keepdim=True)
        values = state.target(following).gather(1, picked)[:, 0]
        targets = returns.to(device) + factors.to(device) * values
    actions = replay["actions"][starts % CAPACITY].to(device)
    values = state.network(stack(state, starts)).gather(1, actions[:, None])[:, 0]
    loss = functional.smooth_l1_loss(values, targets)
    state.optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    state.optimiser.step()
    with torch.no_grad():
        pairs = zip(state.target.parameters(), state.network.parameters(), strict=True)
        for slow, fast in pairs:
            slow.lerp_(fast, TARGET_SHARE)
    return loss.item()


def save(state: State, directory: Path) -> None:
    """Writes everything needed to resume a run bit-exactly."""
    saved = {
        "arguments": state.arguments,
        "network": state.network.state_dict(),
        "target": state.target.state_dict(),
        "optimiser": state.optimiser.state_dict(),
        "generator": state.generator.get_state(),
        "replay": state.replay,
        "counts": (state.frames, state.decisions_of_visit),
    }
    torch.save(saved, directory / "state.pt")


def load(directory: Path) -> State:
    """The state that was saved."""
    saved = torch.load(directory / "state.pt", map_location="cpu", weights_only=True)
    state = init(**saved["arguments"])
    for name in ("network", "target", "optimiser"):
        getattr(state, name).load_state_dict(saved[name])
    state.generator.set_state(saved["generator"])
    state.replay = saved["replay"]
    state.frames, state.decisions_of_visit = saved["counts"]
    return state
