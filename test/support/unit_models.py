"""The lit format of test/data/unit: each recipe is a test, and a table says what differs in a few of them.

A test compares the logits of the model, by test/e2e/fidelity.py, with those of its reference: at once, token by token,
in small ubatches, beside other sequences and after a restart. A line of the table is the name of a model and options
of fidelity.py, which replace or follow the usual ones; `requires=FEATURE` among them is what REQUIRES is in a file.
"""
import os
import shlex

import lit.formats
import lit.Test
import lit.TestRunner
import lit.util

MODES = "prefill,step,ubatch5,beside,restore"
BOUNDS = {"--rel", "--mean-kl", "--perplexity"}


def read_table(path, models):
    """The table as {model: [word]}. Raises ValueError for a model that has no recipe or two lines."""
    table = {}
    with open(path) as file:
        for number, line in enumerate(file, 1):
            words = shlex.split(line, comments=True)
            if not words:
                continue
            if words[0] not in models:
                raise ValueError(f"{path}:{number}: there is no {words[0]}.recipe")
            if words[0] in table:
                raise ValueError(f"{path}:{number}: {words[0]} has a line already")
            table[words[0]] = words[1:]
    return table


def fidelity_options(model, data, words):
    """The options of fidelity.py for a model whose line of the table has these words."""
    options = ["--kv-type", "f32", "--modes", MODES, "--ids", f"{data}/{model}.txt", "--greedy", f"{data}/{model}.txt"]
    if not BOUNDS & set(words):
        options += ["--rel", "1e-4"]
    return options + words + [f"{data}/{model}.gguf", f"{data}/{model}.logits.npy"]


class UnitModelTest(lit.formats.FileBasedTest):
    """Tests are NAME.recipe; `folder` has them and `table`."""

    def __init__(self, folder, table):
        models = {name[:-len(".recipe")] for name in os.listdir(folder) if name.endswith(".recipe")}
        self.table = read_table(os.path.join(folder, table), models)

    def execute(self, test, lit_config):
        config, model = test.config, test.path_in_suite[-1][:-len(".recipe")]
        words = self.table.get(model, [])
        test.requires = [word[len("requires="):] for word in words if word.startswith("requires=")]
        missing = test.getMissingRequiredFeatures()
        if missing:
            return lit.Test.Result(lit.Test.UNSUPPORTED, "requires " + ", ".join(missing))
        work = lit.TestRunner.getTempPaths(test)[1] + ".tmp"
        words = [word for word in words if not word.startswith("requires=")]
        command = [config.python, f"{config.source_dir}/test/e2e/fidelity.py", "--moec", f"{config.tools_dir}/moec",
                   "--moert", f"{config.tools_dir}/moert", "--work", work,
                   *fidelity_options(model, f"{config.build_dir}/test/data/unit", words)]
        try:
            out, err, status = lit.util.executeCommand(command, env=config.environment,
                                                       timeout=lit_config.maxIndividualTestTime)
        except lit.util.ExecuteCommandTimeoutException as late:
            return lit.Test.Result(lit.Test.TIMEOUT, f"{late.out}{late.err}{late.msg}")
        passed = status == 0 and "fidelity: ok\n" in out
        return lit.Test.Result(lit.Test.PASS if passed else lit.Test.FAIL, f"$ {shlex.join(command)}\n{out}{err}")
