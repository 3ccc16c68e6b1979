"""Combine three classifiers of unequal cost into a cascade that runs the costly ones only where they matter."""

from time import perf_counter

from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

import irene

x, x_test, y, y_test = train_test_split(*load_digits(return_X_y=True), test_size=0.3, random_state=0)
x, x_held, y, y_held = train_test_split(x, y, test_size=0.4, random_state=0)
models = [LogisticRegression(max_iter=3000), KNeighborsClassifier(), CalibratedClassifierCV(SVC(), ensemble=False)]
whole = irene.Cascade.from_members([model.fit(x, y) for model in models], example=x_held)
# Be wrong where the whole ensemble is right on at most 1 % of samples, with 90 % confidence.
point = irene.fit_policy(irene.Bank.of(whole, x_held, y_held), risk=0.01, confidence=0.9)
for name, cascade in {"whole ensemble": whole, "cascade": point.cascade(whole.members, whole.costs)}.items():
    start = perf_counter()
    right = (cascade.predict(x_test).labels.numpy() == y_test).mean()
    print(f"{name:14}  {right:.1%} right, {1000 * (perf_counter() - start):.1f} ms for {len(x_test)} digits")
