"""Agents that learn, one file each; `parts` has what they share.

Every module of this folder is a learner, and is found by its name: `linear_td.py` is
the agent `linear-td`. So a new learner is one new file. It has

    init, step, save, load   as any agent made of functions; it plays control and
                             streaming suites, or predicts
    REVISION                 raised when its behaviour or a default changes. It is part
                             of the agent's config, so results of two revisions are
                             never mixed
    a docstring              first what it does, in one line, then its paper and what
                             differs from it

`make facts` then writes its line in docs/learners.md, and `make record` what its
revision is pinned to; the tests find it, too.
"""
