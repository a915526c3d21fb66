/**
 * Servers that people run models on: how each is known, by its program, by what its processes are
 * called or by the header `server` of its answers, and which of its own arguments are worth tuning.
 * This table feeds `tune init`, its help and docs/reference/server-presets.md. Light: help shows it.
 */
import type { ProtocolName } from '../../profiler/protocols/protocol-table.ts'
import type { LanguageServer } from './language-servers.ts'
import type { ServerKind } from './preset.ts'

/** An argument, or an environment variable, of a server that is worth tuning. */
export interface ServerKnob {
  /** The parameter's. */
  readonly name: string
  /** As the server spells it, the one that is written first; absent for a variable. */
  readonly args?: readonly [string, ...string[]]
  readonly env?: string
  /** Or as a file of its settings has it. */
  readonly setting?: string
  /** As an experiment file has them: 1..4, '16..256 x2', [0.8, 0.9]. */
  readonly values: string | readonly (number | string)[]
  readonly what: string
  /** Read under these values of another argument alone, or where it is not given. */
  readonly under?: { readonly args: readonly string[]; readonly values: readonly string[] }
  /** A switch without which it is not read. */
  readonly needs?: string
}

/** Servers of language models that count sequences and cache, each by names of its own. */
export type LanguageEngine = LanguageServer | 'llama.cpp'

export interface OwnServer {
  readonly title: string
  /** Names of its program; of a Python module as it stands after -m. */
  readonly programs: readonly string[]
  /** What the header `server` of its answers begins with. */
  readonly header?: string
  readonly protocol?: ProtocolName
  /** How it is told where to listen, and what else is always set. */
  readonly listens: readonly ServerSetting[]
  readonly knobs: readonly ServerKnob[]
  /** It reads no option behind the application. */
  readonly optionsFirst?: boolean
  /**
   * Its flags and files are written for it: the arguments that name where its models are, and the
   * one served.
   */
  readonly preset?: { readonly kind: ServerKind; readonly models: string; readonly model?: string }
  /** The word after the program that starts it: vllm serve. */
  readonly subcommand?: string
  /** The word after that one is the model, which it does not tell when it is asked. */
  readonly modelNext?: true
  /** Its tuning stands in a file of settings, which is written for each trial. */
  readonly settings?: 'ray-serve'
  /** What tuning it takes beside its arguments. */
  readonly note?: string
  /**
   * By which names it counts sequences and cache at /metrics, and the switch without which it does
   * not.
   */
  readonly engine?: LanguageEngine
  readonly counts?: string
}

/** An argument or variable that is always set. */
interface ServerSetting {
  readonly args?: readonly [string, ...string[]]
  readonly env?: string
  readonly value: string
  /** Other arguments that say the same, which it does not take beside this one. */
  readonly insteadOf?: readonly string[]
}

const port = '${port}'
const host = '${host}'
const bind: readonly ServerSetting[] = [{ args: ['--bind', '-b'], value: `${host}:${port}` }]
const hostAndPort: readonly ServerSetting[] = [
  // Beside a socket a server does not listen at its port.
  { args: ['--host'], value: host, insteadOf: ['--uds', '--fd'] },
  { args: ['--port'], value: port },
]
const workers = (...args: [string, ...string[]]): ServerKnob => ({
  name: 'workers',
  args,
  values: '1..4',
  what: 'processes',
})
const settingKnob = (
  name: string,
  setting: string,
  values: ServerKnob['values'],
  what: string,
): ServerKnob => ({
  name,
  setting,
  values,
  what,
})
const presetKnob = (name: string, values: ServerKnob['values'], what: string): ServerKnob => ({
  name,
  values,
  what,
})

export const ownServers = [
  {
    title: 'gunicorn',
    programs: ['gunicorn'],
    header: 'gunicorn',
    listens: bind,
    knobs: [
      workers('--workers', '-w'),
      {
        name: 'threads',
        args: ['--threads'],
        values: '1..8 x2',
        what: 'threads per worker; more than one selects gthread',
        under: { args: ['--worker-class', '-k'], values: ['sync', 'gthread'] },
      },
    ],
  },
  {
    title: 'uvicorn',
    programs: ['uvicorn'],
    header: 'uvicorn',
    listens: hostAndPort,
    knobs: [workers('--workers')],
  },
  {
    title: 'hypercorn',
    programs: ['hypercorn'],
    header: 'hypercorn',
    listens: [
      {
        args: ['--bind', '-b'],
        value: `${host}:${port}`,
        insteadOf: ['--insecure-bind', '--quic-bind'],
      },
    ],
    knobs: [workers('--workers', '-w')],
  },
  {
    title: 'waitress',
    programs: ['waitress-serve'],
    header: 'waitress',
    listens: [
      {
        args: ['--listen'],
        value: `${host}:${port}`,
        insteadOf: ['--host', '--port', '--unix-socket'],
      },
    ],
    optionsFirst: true,
    knobs: [{ name: 'threads', args: ['--threads'], values: '1..16 x2', what: 'threads' }],
  },
  {
    title: 'uWSGI',
    programs: ['uwsgi', 'uwsgi-core'],
    listens: [
      {
        args: ['--http', '--http-socket'],
        value: `${host}:${port}`,
        insteadOf: ['--socket', '-s', '--uwsgi-socket'],
      },
    ],
    knobs: [
      { name: 'processes', args: ['--processes', '-p'], values: '1..4', what: 'processes' },
      { name: 'threads', args: ['--threads'], values: '1..8 x2', what: 'threads per process' },
    ],
  },
  {
    title: 'Puma',
    programs: ['puma'],
    listens: [
      { args: ['--bind', '-b'], value: `tcp://${host}:${port}`, insteadOf: ['--port', '-p'] },
    ],
    knobs: [
      workers('--workers', '-w'),
      {
        name: 'threads',
        args: ['--threads', '-t'],
        values: '1..8 x2',
        what: 'threads per worker',
      },
    ],
  },
  {
    title: 'NVIDIA Triton',
    programs: ['tritonserver'],
    protocol: 'oip-v2',
    listens: [],
    preset: { kind: 'triton', models: '--model-repository' },
    knobs: [
      presetKnob('batchSize', '1..32', '`max_batch_size`'),
      presetKnob('maxDelayMs', [0, 1, 5], '`max_queue_delay_microseconds`, in ms'),
      presetKnob('instances', '1..2', '`instance_group.count`'),
    ],
  },
  {
    title: 'TensorFlow Serving',
    programs: ['tensorflow_model_server'],
    protocol: 'tfserving',
    listens: [],
    preset: { kind: 'tfserving', models: '--model_base_path', model: '--model_name' },
    knobs: [
      presetKnob('batchSize', '1..64', '`max_batch_size`'),
      presetKnob('maxDelayMs', [0, 1, 5], '`batch_timeout_micros`, in ms'),
      presetKnob('numBatchThreads', '1..4', '`num_batch_threads`'),
    ],
  },
  {
    title: 'vLLM',
    programs: ['vllm', 'vllm.entrypoints.openai.api_server'],
    subcommand: 'serve',
    protocol: 'openai',
    engine: 'vllm',
    listens: hostAndPort,
    knobs: [
      {
        name: 'maxNumSeqs',
        args: ['--max-num-seqs'],
        values: '16..256 x2',
        what: 'maximum concurrent sequences',
      },
      {
        name: 'maxNumBatchedTokens',
        args: ['--max-num-batched-tokens'],
        values: '2048..16384 x2',
        what: 'maximum tokens per step',
      },
      {
        name: 'gpuMemoryUtilization',
        args: ['--gpu-memory-utilization'],
        values: [0.8, 0.9, 0.95],
        what: 'share of the GPU memory, 0-1',
      },
    ],
  },
  {
    title: 'SGLang',
    programs: ['sglang.launch_server'],
    protocol: 'openai',
    engine: 'sglang',
    counts: '--enable-metrics',
    listens: hostAndPort,
    knobs: [
      {
        name: 'maxRunningRequests',
        args: ['--max-running-requests'],
        values: '16..256 x2',
        what: 'maximum concurrent requests',
      },
      {
        name: 'chunkedPrefillSize',
        args: ['--chunked-prefill-size'],
        values: '2048..8192 x2',
        what: 'tokens per prefill chunk',
      },
      {
        name: 'memFractionStatic',
        args: ['--mem-fraction-static'],
        values: [0.7, 0.8, 0.88],
        what: 'share of the GPU memory, 0-1',
      },
    ],
  },
  {
    title: 'TensorRT-LLM',
    programs: ['trtllm-serve'],
    protocol: 'openai',
    listens: hostAndPort,
    knobs: [
      {
        name: 'maxNumSeqs',
        args: ['--max_batch_size'],
        values: '16..256 x2',
        what: 'maximum concurrent requests',
      },
      {
        name: 'maxNumBatchedTokens',
        args: ['--max_num_tokens'],
        values: '2048..16384 x2',
        what: 'maximum tokens per step',
      },
      {
        name: 'gpuMemoryUtilization',
        args: ['--free_gpu_memory_fraction', '--kv_cache_free_gpu_memory_fraction'],
        values: [0.8, 0.9, 0.95],
        what: 'share of the memory left after the weights, 0-1',
      },
    ],
  },
  {
    title: 'MLServer',
    programs: ['mlserver'],
    subcommand: 'start',
    protocol: 'oip-v2',
    listens: [
      { env: 'MLSERVER_HOST', value: host },
      { env: 'MLSERVER_HTTP_PORT', value: port },
      { env: 'MLSERVER_GRPC_PORT', value: '0' },
    ],
    knobs: [
      {
        name: 'parallelWorkers',
        env: 'MLSERVER_PARALLEL_WORKERS',
        values: '0..2',
        what: 'worker processes; 0: none besides the main process',
      },
      {
        name: 'batchSize',
        env: 'MLSERVER_MODEL_MAX_BATCH_SIZE',
        values: '2..32 x2',
        what: 'maximum requests per batch',
      },
      {
        name: 'maxBatchTime',
        env: 'MLSERVER_MODEL_MAX_BATCH_TIME',
        values: [0.001, 0.005, 0.02],
        what: 'maximum wait for a batch, seconds',
      },
    ],
  },
  {
    title: 'llama-server',
    programs: ['llama-server'],
    header: 'llama.cpp',
    protocol: 'openai',
    engine: 'llama.cpp',
    counts: '--metrics',
    // As many as it has cores: more wait for one another.
    listens: [...hostAndPort, { args: ['--threads', '-t'], value: '${cpuCores}' }],
    knobs: [
      {
        name: 'parallel',
        args: ['--parallel', '-np'],
        values: '1..8 x2',
        what: 'maximum concurrent sequences',
      },
      {
        name: 'ubatchSize',
        args: ['--ubatch-size', '-ub'],
        values: '128..512 x2',
        what: 'maximum tokens per step',
      },
    ],
  },
  {
    title: 'Transformers',
    programs: ['transformers'],
    subcommand: 'serve',
    modelNext: true,
    protocol: 'openai',
    listens: hostAndPort,
    knobs: [
      {
        name: 'cbMaxBatchTokens',
        args: ['--cb-max-batch-tokens'],
        values: '256..4096 x2',
        what: 'maximum tokens per step',
        needs: '--continuous-batching',
      },
    ],
    note: 'without `--continuous-batching` it answers requests one at a time',
  },
  {
    title: 'BentoML',
    programs: ['bentoml'],
    subcommand: 'serve',
    listens: [
      // Beside a socket a server does not listen at its port.
      { args: ['--host'], value: host, insteadOf: ['--uds', '--fd'] },
      { args: ['--port', '-p'], value: port },
    ],
    knobs: [
      {
        name: 'apiWorkers',
        args: ['--api-workers'],
        values: '1..4',
        what: 'worker processes',
      },
    ],
  },
  {
    title: 'Ray Serve',
    programs: ['serve'],
    subcommand: 'run',
    listens: [],
    settings: 'ray-serve',
    knobs: [
      settingKnob('replicas', 'num_replicas', '1..4', 'replicas of each deployment'),
      settingKnob(
        'maxOngoingRequests',
        'max_ongoing_requests',
        '4..64 x2',
        'maximum concurrent requests per replica',
      ),
      settingKnob(
        'numCpus',
        'ray_actor_options.num_cpus',
        [0.5, 1],
        'cores that each replica requests',
      ),
    ],
    note: 'tune writes the configuration file of `serve run FILE` for each trial; for `serve run app:app`, create one with `serve build app:app -o serve.yaml`',
  },
] as const satisfies readonly OwnServer[]

/** Of `tune init --help`: gunicorn, uvicorn, ... */
export const ownServerTitles: readonly string[] = ownServers.map(({ title }) => title)
