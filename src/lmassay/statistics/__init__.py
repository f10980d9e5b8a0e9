"""Intervals, comparisons and gates.

*One number.* The scores of a run are columns of a ``table``. ``observations`` and ``combination`` select what a mean is
over, ``terms`` summarises it, and ``estimation`` turns it into a value with an interval, helped by ``clustering`` and
``variance`` (rows that belong together), ``clustered_rate``, ``pile_up``, ``wilson``, ``bounds`` and ``distributions``.
``intervals`` makes the results that tasks report. Questions that were asked several times are in ``repetition``,
trainings on several splits in ``replicates``.

*Two runs.* ``run_pairs`` says which runs are compared, and a run with its scores is one of the ``sides``. ``pairing``
finds the ``paired_scores``, ``comparison`` makes the rows of a table of them, and ``flips`` lists the examples that
changed. ``caveats`` and ``comparability`` warn about what may mislead. ``ranking`` is for more than two runs.

*Gates.* ``conditions`` reads them, ``gate`` judges them, and ``power`` and ``sample_size`` say what they can detect.
"""

# The significance level of comparisons and gates, unless another one is given.
ALPHA = 0.05
