"""gpu-kit.sh: the commands. Standard library only, in every file of this folder."""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def parser():
    top = argparse.ArgumentParser(prog="gpu-kit.sh", description="Ten minutes on a lent GPU.")
    commands = top.add_subparsers(dest="command", required=True)
    make = commands.add_parser("make", help="write a folder to bring to a machine with a GPU")
    make.add_argument("folder", metavar="DIR")
    make.add_argument("--build", help="a finished build (build, beside tools)")
    make.add_argument("--target", default="h100+xeon",
                      help="the machine that plans of full size are compiled for (h100+xeon); unit plans run on any GPU")
    make.add_argument("--small", action="store_true",
                      help="links instead of archives, unit plans for one architecture, no plans of full size: to try it here")
    run = commands.add_parser("run", help="do everything in order of worth, each step under a time limit")
    run.add_argument("what", nargs="?", choices=["correctness", "speed", "all"], default="all")
    run.add_argument("--software", action="store_true", help="use the software GPU although there is another")
    run.add_argument("--driver", default="libcuda.so.1", help="(libcuda.so.1)")
    run.add_argument("--folder", default=os.path.dirname(HERE), help="the kit (where gpu-kit.sh lies)")
    run.add_argument("--minutes", type=float, help="for each of the two parts (9 and 10)")
    run.add_argument("--only", metavar="REGEX", help="the steps with such names")
    read = commands.add_parser("read", help="print measured beside predicted times, and write a calibrated target")
    read.add_argument("report", metavar="REPORT.jsonl")
    read.add_argument("--target", help="the target to calibrate: a name of moec targets, or a file (the kit's)")
    read.add_argument("-o", "--output", help="write the calibrated target there, for --target-file of moec compile")
    read.add_argument("--clock", help="simulated times, as cuda_clock --json prints them (by the build's, if it has one)")
    read.add_argument("--build", help="a finished build (build, beside tools)")
    return top


def main():
    arguments = parser().parse_args()
    if getattr(arguments, "build", True) is None:
        arguments.build = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build")
    if arguments.command == "make":
        import make as command
    elif arguments.command == "run":
        import run as command
    else:
        import read as command
    try:
        return command.main(arguments)
    except command.Problem as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.path.insert(0, HERE)
    sys.exit(main())
