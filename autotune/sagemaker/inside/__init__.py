"""What runs in the container of a SageMaker training job: one study, on all hosts of the job.

`start.py` is the container's entrypoint, on the standard library alone; it starts
`python -m autotune.sagemaker.inside` on each host.
"""
