"""PPO in one file, with the loop that research scripts have, on a recorded stream.

    python examples/gym_ppo_torch.py --record runs/ppo --save ppo.pt
    longplay show runs/ppo

It needs `pip install torch`. `GameEpisodes` makes a game over the end of an episode.
The loop rounds its steps up to whole rollouts: after the end of the stream the
environment stays there and records nothing, and the script ends as usual. With
`--num-envs 4` one network learns from four streams at once, and its runs are not
independent: that is another setting than the one stream of the benchmark.
"""

import argparse
import math
from dataclasses import asdict, dataclass

import gymnasium
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn
from torch.nn import functional

import longplay.gym

SIZE = 42


@dataclass
class Settings:
    """The hyper-parameters, which the recorded runs name."""

    num_envs: int = 1
    num_steps: int = 128
    num_minibatches: int = 4
    update_epochs: int = 2
    learning_rate: float = 2.5e-4
    gamma: float = 0.97
    gae_lambda: float = 0.95
    clip: float = 0.1
    entropy: float = 0.01


def make_env(env_id, record, settings):
    agent = {"name": "gym_ppo_torch", "args": asdict(settings)}

    def make():
        env = gymnasium.make(env_id, record=record, agent=agent)
        return longplay.gym.GameEpisodes(env)

    return make


class Agent(nn.Module):
    """A policy and a value of small grey frames."""

    def __init__(self, num_actions):
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(1, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(288, 128), nn.ReLU()),
        )
        self.policy = nn.Linear(128, num_actions)
        self.value = nn.Linear(128, 1)

    def forward(self, frames):
        hidden = self.body(frames)
        logits = self.policy(hidden)
        return torch.distributions.Categorical(logits=logits), self.value(hidden)[:, 0]


def shrink(observations):
    grey = torch.from_numpy(observations).float().mean(dim=3) / 255
    return functional.adaptive_avg_pool2d(grey[:, None], SIZE)


def collect(envs, agent, frames, settings):
    """Plays one rollout; returns its columns and the frames after it."""
    columns = {name: [] for name in "frames actions logs values rewards ends".split()}
    for _ in range(settings.num_steps):
        with torch.no_grad():
            policy, values = agent(frames)
            actions = policy.sample()
        logs = policy.log_prob(actions)
        observations, rewards, terminated, truncated, _infos = envs.step(
            actions.numpy()
        )
        row = (
            *(frames, actions, logs, values),
            torch.as_tensor(rewards, dtype=torch.float32),
            torch.as_tensor(terminated | truncated, dtype=torch.float32),
        )
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
        frames = shrink(observations)
    return {name: torch.stack(column) for name, column in columns.items()}, frames


def find_advantages(rollout, last_values, settings):
    """Generalised advantage estimates, (steps, environments)."""
    advantages = torch.zeros_like(rollout["rewards"])
    next_values, advantage = last_values, torch.zeros_like(last_values)
    for step in reversed(range(settings.num_steps)):
        goes_on = 1.0 - rollout["ends"][step]
        error = rollout["rewards"][step] + settings.gamma * goes_on * next_values
        error = error - rollout["values"][step]
        decay = settings.gamma * settings.gae_lambda * goes_on
        advantages[step] = advantage = error + decay * advantage
        next_values = rollout["values"][step]
    return advantages


def learn(agent, optimiser, rollout, advantages, settings):
    """Some epochs of clipped updates on one rollout; returns the last losses."""
    returns = (advantages + rollout["values"]).flatten()
    batch = {name: column.flatten(0, 1) for name, column in rollout.items()}
    flat = advantages.flatten()
    for _ in range(settings.update_epochs):
        for chosen in torch.randperm(len(flat)).chunk(settings.num_minibatches):
            policy, values = agent(batch["frames"][chosen])
            logs = policy.log_prob(batch["actions"][chosen])
            ratio = (logs - batch["logs"][chosen]).exp()
            gain = flat[chosen]
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
            policy_loss = -torch.min(gain * ratio, gain * clipped).mean()
            value_loss = functional.mse_loss(values, returns[chosen])
            loss = policy_loss + 0.5 * value_loss
            loss = loss - settings.entropy * policy.entropy().mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimiser.step()
    return {"policy_loss": policy_loss.item(), "value_loss": value_loss.item()}


def parse_args(args=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env-id", default="longplay/ControlSmoke-v1")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--total-timesteps", type=int, default=1500)
    parser.add_argument("--record", default=None, help="the experiment directory")
    parser.add_argument("--save", default=None, help="file for the network")
    for name, value in asdict(Settings()).items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(value), default=value)
    return parser.parse_args(args)


def main(args=None):
    args = parse_args(args)
    settings = Settings(**{name: getattr(args, name) for name in asdict(Settings())})
    torch.manual_seed(args.seed)
    makers = [make_env(args.env_id, args.record, settings)] * settings.num_envs
    # In the same step: every step plays a frame, also the one after a game over.
    envs = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    agent = Agent(envs.single_action_space.n)
    optimiser = torch.optim.Adam(agent.parameters(), settings.learning_rate)

    observations, _infos = envs.reset(seed=args.seed)
    frames = shrink(observations)
    batch_size = settings.num_envs * settings.num_steps
    for _ in range(math.ceil(args.total_timesteps / batch_size)):
        rollout, frames = collect(envs, agent, frames, settings)
        with torch.no_grad():
            last_values = agent(frames)[1]
        advantages = find_advantages(rollout, last_values, settings)
        envs.call("log", learn(agent, optimiser, rollout, advantages, settings))
    envs.close()
    if args.save is not None:
        torch.save(agent.state_dict(), args.save)


if __name__ == "__main__":
    main()
