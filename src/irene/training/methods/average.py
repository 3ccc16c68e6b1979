"""The average ensemble: members that differ by their seed, trained independently, all run on every sample."""

from __future__ import annotations

from irene.training.method import Method, Trained, Training


def train(training: Training) -> Trained:
    members = []
    for index in range(len(training.backbones)):
        member = training.new_member(index)
        training.fit(f"member-{index + 1}", member)
        members.append(member)
    return Trained(members=members)


METHOD = Method(
    name="average",
    description="independent members, all run and averaged: the accuracy to reach",
    train=train,
)
