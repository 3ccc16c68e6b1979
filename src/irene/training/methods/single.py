"""One model: what an ensemble has to beat."""

from __future__ import annotations

from irene.training.method import Method, Trained, Training


def train(training: Training) -> Trained:
    member = training.new_member(0)
    training.fit("member-1", member)
    return Trained(members=[member])


METHOD = Method(
    name="single",
    description="one model, the reference for cost 1",
    train=train,
    members=1,
    members_of="average",
)
