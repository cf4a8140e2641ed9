"""Remote steps: Tasks of their own, each given to a runner by the process that holds its stream."""
