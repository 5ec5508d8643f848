"""One-step actor-critic in plain PyTorch: learns from each transition once.

    longplay run control-v1 --agent examples/control_actor_critic_torch.py --seed 1000

A network sees a small grey frame and its difference from the one before. It needs
`pip install torch`; `longplay new-agent my_agent.py --template torch` writes a DQN.
"""

import torch
from torch import nn
from torch.nn import functional

SIZE = 42


class ActorCritic:
    """The state of the agent: a network, its optimiser, and the last decision."""

    def __init__(self, num_actions, seed, step_size, discount, entropy, device):
        self.arguments = dict(locals())
        del self.arguments["self"]
        self.discount, self.entropy, self.device = discount, entropy, device
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.network = nn.Sequential(
                *(
                    nn.Conv2d(2, 16, 8, 4),
                    nn.ReLU(),
                    nn.Conv2d(16, 32, 4, 2),
                    nn.ReLU(),
                ),
                *(nn.Flatten(), nn.Linear(288, 128), nn.LayerNorm(128), nn.Tanh()),
                nn.Linear(128, num_actions + 1),
            ).to(device)
        self.optimiser = torch.optim.Adam(self.network.parameters(), step_size)
        self.generator = torch.Generator().manual_seed(seed)
        self.image, self.action = torch.zeros(1, 2, SIZE, SIZE), None

    def learn(self, image, reward, is_over):
        """Moves values towards the reward and the next value, the policy along."""
        outputs = self.network(torch.cat((self.image, image)).to(self.device))
        value, next_value = outputs[:, -1]
        target = reward + (0.0 if is_over else self.discount * next_value.detach())
        advantage = target - value
        logs = functional.log_softmax(outputs[0, :-1], dim=0)
        gain = advantage.detach() * logs[self.action]
        gain = gain - self.entropy * (logs.exp() * logs).sum()
        self.optimiser.zero_grad()
        (0.5 * advantage**2 - gain).backward()
        self.optimiser.step()
        return advantage.item() ** 2

    @torch.no_grad()
    def choose(self, image):
        """Draws an action from the policy."""
        chances = self.network(image.to(self.device))[0, :-1].softmax(dim=0).cpu()
        self.image = image
        self.action = int(torch.multinomial(chances, 1, generator=self.generator))
        return self.action


def shrink(observation):
    grey = torch.from_numpy(observation).float().mean(dim=2) / 255
    return functional.adaptive_avg_pool2d(grey[None, None], SIZE)


def init(
    observation_shape,
    num_actions,
    seed,
    step_size=1e-4,
    discount=0.97,
    entropy=0.02,
    device="cpu",
):
    torch.set_num_threads(1)
    return ActorCritic(num_actions, seed, step_size, discount, entropy, device)


def step(state, previous_observation, observation, reward, info):
    is_over = info["terminated"] or info["truncated"]
    before, now = shrink(previous_observation), shrink(observation)
    image = torch.cat((now, now - (now if is_over else before)), dim=1)
    error = 0.0
    if state.action is not None:
        error = state.learn(image, max(-1.0, min(1.0, reward)), is_over)
    return state, state.choose(image), {"squared_td_error": error}


def save(state, directory):
    saved = {
        "arguments": state.arguments,
        "network": state.network.state_dict(),
        "optimiser": state.optimiser.state_dict(),
        "generator": state.generator.get_state(),
        "last": (state.image, state.action),
    }
    torch.save(saved, directory / "state.pt")


def load(directory):
    saved = torch.load(directory / "state.pt", map_location="cpu", weights_only=True)
    state = ActorCritic(**saved["arguments"])
    state.network.load_state_dict(saved["network"])
    state.optimiser.load_state_dict(saved["optimiser"])
    state.generator.set_state(saved["generator"])
    state.image, state.action = saved["last"]
    return state
