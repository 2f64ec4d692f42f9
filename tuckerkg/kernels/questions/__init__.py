"""Messages that start at a question's head, one question at a time: scores, loss and gradients in compiled code.

For a question (s, q) the head starts at ``e_q`` and every other entity at 0; ``nn/paths.py`` has the equations, and the
same in plain PyTorch. Layer by layer, over the entities that messages have reached:

    search.py    breadth-first search from the head: entities in order of distance, so that a layer works on a prefix;
                 then their in-edges, grouped by relation, hidden edges left out, in local numbers;
    forward.py   sum, largest and smallest message of each entity, the small products, LayerNorm, ReLU, skip; an MLP
                 scores each reached entity, and the others share the score of a state of zeros;
    loss.py      softmax over all entities, other known answers left out, with the gradient of each score;
    backward.py  the same in-edges once more, gradients added into the sources;
    passes.py    all of it for a list of questions; ``graph.py`` divides a list among threads.

Cost of a question that reaches n entities over m in-edges in a layer, at width d: 4 d^2 n multiply-adds, and one row
of d numbers gathered per edge; the edges of one relation are summed before they are multiplied by it. Nothing has the
size of edges times width. Backward touches only entities whose score has a gradient and what they were computed from:
a softmax leaves most with next to none, and ``loss.py`` may round these to zero or up at random, without bias.

Every sum has a fixed order: the same bits whatever the threads. Benchmark stages: question-step, question-answer.
"""
