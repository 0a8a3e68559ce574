//===- TheirAnswers.h - What TheirOptions.def is written with ---*- C++ -*-===//

#ifndef MOE_TOOLS_COMMON_THEIRANSWERS_H
#define MOE_TOOLS_COMMON_THEIRANSWERS_H

#include <string_view>

/// Constants of the rows of TheirOptions.def: tools, kinds of values, and
/// answers that several rows share. An answer follows "NAME: " in an error, so
/// that it begins with a small letter and has no full stop.
namespace moetool::theirs {

/// The tools that have an option: llama.cpp's, ik_llama.cpp's, KTransformers'
/// with its server (SGLang). OURS marks other words of our own.
inline constexpr unsigned LLAMA = 1, IK = 2, KT = 4, OURS = 8;

/// Numbers of values besides 0, 1 and 2.
///
/// A switch has no value, or one of on, true, yes, 1, auto, with which the row
/// holds, or of off, false, no, 0, for which the row has its answer alone.
/// Other words are not its value.
inline constexpr int kSwitch = -1;
/// One value. The row holds only if another row with the same words of ours is
/// given the same value, as in -ctk q8_0 -ctv q8_0; otherwise it has its answer
/// alone.
inline constexpr int kPaired = -2;
/// All words that follow, up to the next option.
inline constexpr int kMany = -3;

// The model

inline constexpr std::string_view kModel =
    "give the GGUF, or a plan, as the argument: moert run MODEL.gguf";
inline constexpr std::string_view kHfFolder =
    "the GGUF has tokenizer, template and configuration: leave this out, and "
    "give MODEL.gguf as the argument";
inline constexpr std::string_view kGgufFile =
    "give the GGUF as the argument, MODEL.gguf: the file, not its folder; of a "
    "split model any part";
inline constexpr std::string_view kDownloads =
    "nothing is downloaded: get the GGUF with another program, such as hf "
    "download USER/MODEL FILE.gguf, and name the file; tools/get-model.sh gets "
    "two small models";
inline constexpr std::string_view kModelKeys =
    "keys of the model file stay as they are; --experts N sets experts per "
    "token, --rope-scaling yarn:FACTOR a longer context, --pre NAME the "
    "pre-tokenizer";
inline constexpr std::string_view kVerify =
    "moert verify PLAN.fb checks every byte against what was recorded when the "
    "plan was compiled";
inline constexpr std::string_view kDryRun =
    "moec plan MODEL.gguf predicts whether a model fits and how fast it is, "
    "and loads nothing";
inline constexpr std::string_view kNoAdapters =
    "plans have no adapters and no control vectors; merge an adapter into the "
    "model file with another program";
inline constexpr std::string_view kNoImages =
    "models read and write text: there are no images, audio or video";
inline constexpr std::string_view kFormats =
    "weights keep the formats of the GGUF, and moec formats lists those that "
    "are known; take another file of the model for others";
inline constexpr std::string_view kArchitecture =
    "the GGUF says which architecture it has; moec architectures lists those "
    "that are known";
inline constexpr std::string_view kFromFile = "this is as the model file says";

// Context and KV cache

inline constexpr std::string_view kContext =
    "-c N of commands that compile or run a model sets the context";
inline constexpr std::string_view kPool =
    "--kv-budget SIZE makes one cache that all sequences share; otherwise it "
    "holds a context for each of --sequences";
inline constexpr std::string_view kCacheTypes =
    "keys and values have one type: --kv-type f16 or --kv-type q8_0";
inline constexpr std::string_view kCacheFormats =
    "caches are f32, f16, bf16 or q8_0, of which q8_0 is the smallest: "
    "--kv-type q8_0";
inline constexpr std::string_view kCacheLayers =
    "keys and values have one type, by layer if need be: --kv-type "
    "blk.0-3=f16,q8_0";
inline constexpr std::string_view kHadamard =
    "keys and values are stored without a transform; --kv-type f16 keeps more "
    "of them than q8_0";
inline constexpr std::string_view kCacheDevice =
    "the cache of a layer is where its attention is: --place "
    "'blk.*.attention*=cpu0' puts both on the CPU";
inline constexpr std::string_view kNoShift =
    "a text ends where the context is full; -c N sets the context";
inline constexpr std::string_view kCheckpoints =
    "layers with a window or a state keep what they need, and checkpoints, by "
    "themselves";
inline constexpr std::string_view kRope =
    "--rope-scaling yarn:FACTOR is the one way to scale positions; all else is "
    "as the model file says";
inline constexpr std::string_view kDebug =
    "there is no such output; moert profile and moec explain show what a plan "
    "does";

// Steps

inline constexpr std::string_view kByCompile =
    "this is decided when a model is compiled: give it to moec compile, or to "
    "a command of moert that takes MODEL.gguf in place of a plan";
inline constexpr std::string_view kSequences =
    "--sequences N of moec compile and moert serve is the most texts at the "
    "same time";
inline constexpr std::string_view kBatching =
    "texts are generated together; with --sequences 1 one runs, and others "
    "wait";
inline constexpr std::string_view kAttention =
    "moec chooses attention kernels itself; there is nothing to switch on or "
    "off";
inline constexpr std::string_view kMla =
    "the form of latent attention is chosen by --mla auto, or set by --mla "
    "none, factored or folded";
inline constexpr std::string_view kScratch =
    "the memory of a step is planned with all else, and must fit; a smaller "
    "--ubatch N takes less";
inline constexpr std::string_view kFused =
    "moec fuses experts and other products itself; there is nothing to switch "
    "on or off";
inline constexpr std::string_view kGroups =
    "groups of experts are chosen as the model file says; there is nothing to "
    "switch on or off";
inline constexpr std::string_view kGraphs =
    "a plan fixes the steps, and what a GPU does of a phase is one CUDA graph; "
    "there is nothing to switch on or off";
inline constexpr std::string_view kKernels =
    "moec chooses kernels by machine and format; there is nothing to set";
inline constexpr std::string_view kFewerExperts =
    "--experts N sets the experts per token; --max-dropped-mass X with "
    "--router-profile FILE takes fewer by layer";
inline constexpr std::string_view kWarmup =
    "moert bench runs each test once before it counts; --no-warmup leaves that "
    "out";

// Placement

inline constexpr std::string_view kPlaceDense =
    "--place 'blk.N.ffn*=cpu0' puts the feed-forward ops of layer N on the "
    "CPU; moec explain has the names of ops";
inline constexpr std::string_view kPrintRules =
    "moec compile MODEL.gguf --emit rules prints where each op goes";
inline constexpr std::string_view kFits =
    "a plan always fits the memory of its machine, or is refused; what --ctx, "
    "--n-gpu-layers and --place ask for is kept";
inline constexpr std::string_view kMemoryLimit =
    "--vram-limit SIZE and --dram-limit SIZE bound the memory of each GPU and "
    "of the host, as in --vram-limit 20GiB";
inline constexpr std::string_view kFitPrint =
    "moec plan MODEL.gguf says whether a model fits this machine, and others";
inline constexpr std::string_view kSplits =
    "name the GPUs with --target, as in 2x3090+xeon, and moec splits the model "
    "between them; --place puts ops on a device";
inline constexpr std::string_view kDevices = "moert devices lists the devices";
inline constexpr std::string_view kOneHost =
    "a plan runs on one machine, on all GPUs that --target names";
inline constexpr std::string_view kStream =
    "--stream-experts N copies the CPU's experts to the GPU in steps of N "
    "tokens and more; auto chooses N, off never does";
inline constexpr std::string_view kGpuExperts =
    "moec puts experts on GPUs by predicted speed; --place "
    "'blk.*.ffn_experts=gpu0:N' puts N of each layer there";
inline constexpr std::string_view kProfile =
    "moert profile-router counts the experts that a text uses, and "
    "--router-profile FILE puts the most used on GPUs";
inline constexpr std::string_view kFixedExperts =
    "experts stay where the plan has them; --router-profile FILE of moert "
    "profile-router chooses them by use";

// CPU and memory

inline constexpr std::string_view kThreads =
    "this is decided when the plan runs: moert run --threads N";
inline constexpr std::string_view kOneThreadCount =
    "-t of moert is the number of threads in all steps";
inline constexpr std::string_view kCores =
    "workers use the CPUs that the process may use (taskset, numactl); --pin "
    "pins each to a core";
inline constexpr std::string_view kNuma =
    "--numa split keeps weights on the memory node whose cores read them; "
    "--numa auto, which is the default, chooses";
inline constexpr std::string_view kMapping =
    "this is decided when the plan runs: weights are mapped, and moert run "
    "--no-mmap copies them into memory";
inline constexpr std::string_view kLock =
    "weights are mapped and stay in memory while it is free; --no-mmap copies "
    "them into memory";
inline constexpr std::string_view kRepack =
    "--weights load lays weights out while they load, pack writes them laid "
    "out, reference leaves them as the GGUF has them";
inline constexpr std::string_view kHostBuffers =
    "the plan has the buffers of the host; there is nothing to switch on or "
    "off";
inline constexpr std::string_view kHugePages =
    "weights and caches in memory ask for huge pages by themselves; moec "
    "doctor says whether the system gives them";

// Text and conversation

inline constexpr std::string_view kLength =
    "-n N of moert run and moert chat is the length of an answer; requests to "
    "a server have max_tokens";
inline constexpr std::string_view kPrompt =
    "moert run MODEL.gguf -p TEXT takes a prompt";
inline constexpr std::string_view kPromptFile =
    "moert run MODEL.gguf -f FILE takes the prompt from a file";
inline constexpr std::string_view kSystem =
    "--system TEXT of moert run --chat and moert chat; requests to a server "
    "have a system message";
inline constexpr std::string_view kStop =
    "--stop TEXT of moert run and moert chat; requests to a server have stop";
inline constexpr std::string_view kIgnoreEos =
    "moert run has --ignore-eos, and requests to /completion of a server have "
    "ignore_eos";
inline constexpr std::string_view kEscapes =
    "text is taken as it is typed; bash's $'two\\nlines' has escapes, and -f "
    "FILE reads any text";
inline constexpr std::string_view kShowPrompt =
    "the prompt is not printed; moert tokenize PLAN.fb --text TEXT prints the "
    "tokens of a text";
inline constexpr std::string_view kSession =
    "moert run --session FILE keeps a text with its cache, and a later run "
    "computes only what its prompt adds";
inline constexpr std::string_view kSpecial =
    "special tokens are not printed; moert info PLAN.fb has those that mark "
    "reasoning and calls";
inline constexpr std::string_view kStreams =
    "text is printed as it comes; moert run --json prints one object at the "
    "end";
inline constexpr std::string_view kInfill =
    "moert serve has /infill, for models whose vocabulary has the tokens for "
    "it";
inline constexpr std::string_view kContinues =
    "moert run MODEL.gguf -p TEXT goes on with a text";
inline constexpr std::string_view kOneAnswer =
    "moert run MODEL.gguf --chat -p TEXT answers one message";
inline constexpr std::string_view kConversation =
    "moert chat PLAN.fb is a conversation";
inline constexpr std::string_view kLines =
    "lines are one message if they are pasted, end in a backslash, or stand "
    "between two lines of \"\"\"";
inline constexpr std::string_view kTemplate =
    "the model's own template is used; --template FILE of moert run and moert "
    "chat, --chat-template FILE of moert serve take another";
inline constexpr std::string_view kTemplateValues =
    "requests to a server have chat_template_kwargs; --messages FILE.json of "
    "moert run and moert chat may have variables of the template";
inline constexpr std::string_view kParsing =
    "a server always tells reasoning and calls from the answer";
inline constexpr std::string_view kThink =
    "--think show, hide, off or force of moert run and moert chat; in requests "
    "to a server reasoning_effort and chat_template_kwargs decide";
inline constexpr std::string_view kEffort =
    "requests to a server have reasoning_effort; --think off of moert run and "
    "moert chat leaves reasoning off";
inline constexpr std::string_view kHistory =
    "the template decides which reasoning of earlier turns stays";
inline constexpr std::string_view kPrefill =
    "a last message of the assistant is gone on with, unless the request has "
    "continue_final_message: false";
inline constexpr std::string_view kOldChat =
    "there is no such setting; --help lists those that there are";
inline constexpr std::string_view kSave =
    "/save FILE in moert chat writes the conversation, and /load FILE goes on "
    "with it";

// Sampling and speculation

inline constexpr std::string_view kSampling =
    "moert run, chat and serve have options of sampling, and requests to a "
    "server have fields";
inline constexpr std::string_view kLogitBias =
    "requests to a server have logit_bias; --grammar FILE of moert run holds a "
    "text to a form";
inline constexpr std::string_view kOrder =
    "the order is fixed: penalties, top k, top p, min p, temperature";
inline constexpr std::string_view kSamplers =
    "there is no such sampler; there are --temp, --top-k, --top-p, --min-p and "
    "--repeat-penalty";
inline constexpr std::string_view kConstraint =
    "--grammar FILE and --json-schema FILE.json of moert run read files, - is "
    "standard input; requests to a server have grammar and json_schema";
inline constexpr std::string_view kNoDraftModel =
    "no second model drafts tokens; moert serve drafts them from the text "
    "itself (--speculation auto)";
inline constexpr std::string_view kSpeculation =
    "moert serve --speculation auto drafts tokens from the text itself where "
    "that pays, and off never does";
inline constexpr std::string_view kNoMtp =
    "layers for multi-token prediction draft no tokens yet; moert serve drafts "
    "them from the text itself (--speculation auto)";

// Server

inline constexpr std::string_view kServer =
    "this belongs to a server: moert serve MODEL.gguf";
inline constexpr std::string_view kAlias =
    "moert serve --alias NAME is the model's name for clients";
inline constexpr std::string_view kInterfaces =
    "moert serve has all interfaces at once: those of OpenAI, Anthropic, "
    "Ollama and llama-server";
inline constexpr std::string_view kPage =
    "moert serve has a web page of its own, always";
inline constexpr std::string_view kProxy =
    "moert serve leaves this to a proxy in front of it; tools/deploy has "
    "examples";
inline constexpr std::string_view kKeys =
    "moert serve --api-key KEY asks clients for it, and --api-key-file FILE "
    "keeps keys out of the list of processes";
inline constexpr std::string_view kOrigins =
    "moert serve --allow-origin ORIGIN, once for each origin or * for all, "
    "lets web pages use the server";
inline constexpr std::string_view kTimes =
    "moert serve bounds connections and requests by itself; --grace SECONDS is "
    "the time to end after SIGTERM";
inline constexpr std::string_view kSlots =
    "/slots shows each key its own generations; there is nothing to switch off";
inline constexpr std::string_view kProps =
    "settings of moert serve are those of its command line";
inline constexpr std::string_view kMetrics =
    "moert serve has /metrics, always, and /usage for each key";
inline constexpr std::string_view kEmbeddings =
    "moert serve always has /v1/embeddings, of length 1; --pooling is mean or "
    "last";
inline constexpr std::string_view kPrefixes =
    "moert serve keeps what it evaluated and finds it by its text; --cache-dir "
    "FOLDER keeps it after a restart";
inline constexpr std::string_view kModels =
    "moert serve --models FOLDER serves all plans of a folder, loads them on "
    "demand and makes room by itself";
inline constexpr std::string_view kIdle =
    "moert serve --idle MINUTES unloads a model that has had nothing to do for "
    "so long";
inline constexpr std::string_view kClient =
    "moert chat runs the model itself; the web page of moert serve is a chat "
    "with a server";
inline constexpr std::string_view kNoTools =
    "moert serve runs no tools: clients get the calls";
inline constexpr std::string_view kScheduler =
    "moert serve divides steps among requests by itself; --sequences N and "
    "--queue N bound how many run and wait";
inline constexpr std::string_view kDatabase =
    "moert serve --database FILE keeps assistants, threads and responses";

// Logs, statistics, measurements

inline constexpr std::string_view kColours =
    "colours are used on a terminal, and nowhere else";
inline constexpr std::string_view kStats =
    "--stats prints statistics; moert profile and moec explain --full tell "
    "where the time goes";
inline constexpr std::string_view kLog =
    "moert serve --log text, json or off: a line for each request on standard "
    "error";
inline constexpr std::string_view kLogFile =
    "messages go to standard error: 2>FILE";
inline constexpr std::string_view kBench =
    "moert bench has -p N, -n N, -d N, --pg P,N, --parallel N and -o md, json "
    "or csv";
inline constexpr std::string_view kDepth =
    "-d P -n N of moert bench measures N generated tokens after P others";
inline constexpr std::string_view kPerplexity =
    "moert perplexity measures the perplexity of a text, in windows of -c N "
    "tokens; moert logits writes logits";
inline constexpr std::string_view kVersion =
    "moec --version and moert --version print it";
inline constexpr std::string_view kCompletions =
    "moert completions bash, and moec completions bash, print a script for the "
    "shell";
inline constexpr std::string_view kTokenize =
    "moert tokenize PLAN.fb prints the tokens of --text TEXT, or of -f FILE, "
    "as "
    "a JSON list";
inline constexpr std::string_view kNoTraining =
    "nothing is trained here: models are read as they are";
inline constexpr std::string_view kNoDiffusion =
    "models write one token after another: there is no diffusion";
inline constexpr std::string_view kStopServer =
    "a server ends at Ctrl-C or SIGTERM, when running requests have ended";
inline constexpr std::string_view kNoModelfiles =
    "there are no model files of Ollama: a GGUF is served as it is, and "
    "requests and options of moert serve say the rest";
inline constexpr std::string_view kParts =
    "split models are read as they are: give any part, or its folder";
inline constexpr std::string_view kNoConfig =
    "there is no file of settings: all are options of a command";
inline constexpr std::string_view kOtherTools =
    "this belongs to a tool of which moec and moert have none";

} // namespace moetool::theirs

#endif // MOE_TOOLS_COMMON_THEIRANSWERS_H
