"""Running cascades fast: the compacting engine, the streaming engine, and what members run on.

    engine   one batch, as soon as possible            stream   many batches, as much as possible
    stages   what both are made of: slots, lists, one program for each member and bucket
        buckets            the sizes that members run in, and what they take there
        recorder           programs, which are CUDA graphs on a GPU
        chain, switches    all stages after the first in one graph: the GPU chooses what to run next
    queues, arrivals       who waits in a stream, and for what a stream waits
    backend                what runs one member: torch_backend, and by graph_backend onnx_ and openvino_backend
        fused, traces      a torch network with each convolution and what follows it in one kernel
        quantise, int8     members in 8 bits, thresholds set again
    export                 a folder that runs without irene
    bench, growth          how fast all this is: `irene bench`

The GPU's choice goes by three tables: a stage leaves in `keys` (Stages) where the next one looks into its table
(Chain), which holds the number of the program that a switch (Switches) then runs.
"""
