"""Agents that learn: one file per algorithm, and shared parts.

Every learner is a module of functions (`init`, `step`, `save`, `load`), so it plays
control and streaming suites, or predicts. `REVISION` in a learner's module is
raised when its behaviour or a default changes. It is part of the agent's config, so
results of two revisions are never mixed.

    vision, features      pixels -> stacked grey frames; pixels -> binary features
    networks, kernels     a small convolutional network, forwards and backwards
    pixel_scale, reward_scale   running scales that follow the stream
    obgd                  eligibility traces and steps that cannot overshoot
    exploring, replay     choice of actions; replay of past transitions
    limits                hyper-parameters out of range -> errors
    state_files           a learner's state <-> files, bit for bit
"""
