"""Parts that learners share, and that an agent of your own can use.

vision, features      pixels -> stacked grey frames; pixels -> binary features
offsets               rare colours -> features of pairs
networks, kernels     a small convolutional network, forwards and backwards
pixel_scale, reward_scale   running scales that follow the stream
obgd                  eligibility traces and steps that cannot overshoot
exploring             choice of actions
replay, sparse_replay  replay of past transitions: images, features
memory                what is kept when the game changes
dqn_methods           methods for continual learning, as an argument of dqn
limits                hyper-parameters out of range -> errors
state_files           a learner's state <-> files, bit for bit
"""
