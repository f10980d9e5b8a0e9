"""Intervals, comparisons and gates.

*One number.* A ``table`` has the scores of a run as columns. ``observations`` and ``combination`` select the rows and
columns of a mean, ``terms`` summarises them, and ``estimation`` computes a value with an interval. It uses
``clustering`` and ``variance`` (for rows that are not independent), ``clustered_rate``, ``pile_up``, ``wilson``,
``bounds`` and ``distributions``. ``intervals`` builds the results that tasks report. ``repetition`` is for questions
that were asked several times, ``replicates`` for trainings that were repeated on several splits.

*Two runs.* ``run_pairs`` decides which runs are compared; ``sides`` loads a run with its scores. ``pairing`` finds the
``paired_scores``, ``comparison`` computes the rows of the table that `lmassay compare` prints, and ``flips`` lists the
examples that changed. ``caveats`` and ``comparability`` warn about comparisons that may mislead. ``ranking`` is for
more than two runs.

*Gates.* ``conditions`` parses the conditions, ``gate`` tests them, and ``power`` and ``sample_size`` compute which
changes can be detected.
"""

# The significance level of comparisons and gates, unless another one is given.
ALPHA = 0.05
