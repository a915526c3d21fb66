import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import type { Configuration } from '../../search/types.ts'
import { fillCommand } from '../launchers/fill.ts'
import type { CommandTemplate } from '../launchers/template.ts'
import { findTemplateProblems } from '../launchers/template-problems.ts'
import { findDraftFault } from './language-servers.ts'
import { createServerCommand, createServerTuning, selectServerParameters } from './preset.ts'
import type { LanguageServer, ServerKind } from './server-kinds.ts'

const values = {
  host: '127.0.0.1',
  port: 8501,
  model: 'half',
  trial: 1,
  dir: '/runs/1',
  cpuCores: 2,
  gpuMemoryFraction: 0,
}
const template = (kind: ServerKind, more: Partial<CommandTemplate> = {}): CommandTemplate => ({
  kind: 'command',
  model: 'half',
  command: ['server'],
  protocol: 'tfserving',
  server: { kind, modelPath: '/models/half' },
  ...more,
})
const server = (name: string) => ({ name, category: 'server' as const })
const env = (name: string) => ({ name, category: 'env' as const })

describe('TensorFlow Serving', () => {
  test('gets a batching file for the trial, and flags for what was tuned', () => {
    const parameters = [
      server('batchSize'),
      server('maxDelayMs'),
      env('numBatchThreads'),
      env('maxEnqueuedBatches'),
      env('OMP_NUM_THREADS'),
    ]
    const configuration = {
      batchSize: 12,
      maxDelayMs: 1.5,
      numBatchThreads: 2,
      maxEnqueuedBatches: 100,
      OMP_NUM_THREADS: 1,
    }
    const {
      argv,
      env: environment,
      files,
    } = fillCommand(template('tfserving'), parameters, configuration, values)
    expect(argv).toEqual([
      'server',
      '--port=0',
      '--rest_api_port=8501',
      '--model_name=half',
      '--model_base_path=/models/half',
      '--enable_batching=true',
      '--batching_parameters_file=/runs/1/batching_parameters.txt',
    ])
    expect(environment).toEqual({ OMP_NUM_THREADS: '1' })
    expect(files).toEqual([
      {
        path: 'batching_parameters.txt',
        contents: `${[
          'max_batch_size',
          '12',
          'batch_timeout_micros',
          '1500',
          'num_batch_threads',
          '2',
          'max_enqueued_batches',
          '100',
        ].reduce(
          (text, part, i) => text + (i % 2 === 0 ? `${part} {\n` : `  value: ${part}\n}\n`),
          '',
        )}${[1, 2, 4, 8, 12].map((size) => `allowed_batch_sizes: ${size}\n`).join('')}`,
      },
    ])
  })

  test('listens for gRPC alone where it is asked so', () => {
    const grpc = template('tfserving', {
      protocol: 'tfserving-grpc',
      server: { kind: 'tfserving', modelPath: '/models/half', grpc: true },
    })
    expect(fillCommand(grpc, [], {}, values).argv.slice(1, 3)).toEqual([
      '--port=8501',
      '--rest_api_port=0',
    ])
  })

  test('takes batches of any size where the configuration says so, and no file where batching is not tuned', () => {
    const any = fillCommand(
      template('tfserving'),
      [],
      { batchSize: 4, allowedBatchSizes: 'any' },
      values,
    )
    expect(any.files[0]!.contents).not.toContain('allowed_batch_sizes')
    const none = fillCommand(
      template('tfserving'),
      [],
      { intraOpThreads: 2 },
      { ...values, gpuMemoryFraction: 0.25 },
    )
    expect(none.files).toEqual([])
    expect(none.argv.slice(-2)).toEqual([
      '--tensorflow_intra_op_parallelism=2',
      '--per_process_gpu_memory_fraction=0.25',
    ])
  })
})

test('Triton is started on the repository around the model, open to model control', () => {
  const filled = fillCommand(
    template('triton', { command: ['tritonserver', '--log-verbose=0'] }),
    [server('batchSize')],
    { batchSize: 8 },
    values,
  )
  expect(filled.argv).toEqual([
    'tritonserver',
    '--log-verbose=0',
    '--model-repository=/models',
    '--model-control-mode=explicit',
    '--load-model=half',
    '--http-address=127.0.0.1',
    '--http-port=8501',
    '--allow-grpc=false',
    '--allow-metrics=false',
  ])
  expect(filled.files).toEqual([])
})

describe('servers of language models get what was tuned in words of their own', () => {
  const tuned = { gpus: 2, maxNumSeqs: 64, maxNumBatchedTokens: 2048, kvCacheDtype: 'fp8' }
  const parameters = [server('maxNumSeqs'), server('maxNumBatchedTokens'), env('kvCacheDtype')]
  const filledOf = (kind: LanguageServer, configuration: Configuration = tuned) => {
    const weights = createServerCommand(kind, 'org/half')
    return fillCommand(
      template(kind, { command: weights, server: { kind, modelPath: 'org/half' } }),
      parameters,
      configuration,
      values,
    )
  }
  const started = (kind: LanguageServer) => {
    const filled = filledOf(kind)
    expect([filled.env, filled.files]).toEqual([{}, []])
    return filled.argv.join(' ')
  }

  test('vLLM 0.11', () =>
    expect(started('vllm')).toBe(
      'vllm serve org/half --host=127.0.0.1 --port=8501 --served-model-name=half --max-num-seqs=64 --max-num-batched-tokens=2048 --tensor-parallel-size=2 --kv-cache-dtype=fp8',
    ))
  test('SGLang 0.5', () =>
    expect(started('sglang')).toBe(
      'python3 -m sglang.launch_server --model-path=org/half --host=127.0.0.1 --port=8501 --served-model-name=half --enable-metrics --max-running-requests=64 --chunked-prefill-size=2048 --tp-size=2 --kv-cache-dtype=fp8_e4m3',
    ))
  test.each([
    ['awq', 'H100', 'awq_marlin'],
    ['gptq', 'A10G', 'gptq_marlin'],
    ['awq', 'T4', 'awq'],
    ['fp8', 'H100', 'fp8'],
  ])(
    'vLLM and SGLang multiply %s weights on %s by the kernels %s',
    (quantization, gpu, kernels) => {
      const place = {
        host: '127.0.0.1',
        port: '8501',
        model: 'half',
        dir: '/runs/1',
        gpuMemoryFraction: 0,
      }
      for (const kind of ['vllm', 'sglang'] as const) {
        const tuning = createServerTuning(
          { kind, modelPath: 'org/half' },
          { gpu, quantization },
          place,
        )
        expect(tuning.args).toContain(`--quantization=${kernels}`)
      }
    },
  )
  test('TGI 3.3', () =>
    expect(started('tgi')).toBe(
      'text-generation-launcher --model-id=org/half --hostname=127.0.0.1 --port=8501 --served-model-name=half --max-batch-size=64 --max-batch-prefill-tokens=2048 --num-shard=2 --kv-cache-dtype=fp8_e4m3fn',
    ))
  test('TensorRT-LLM 1.2: what has no flag stands in its file of options', () => {
    const {
      argv,
      env: environment,
      files,
    } = filledOf('tensorrt-llm', { ...tuned, gpuMemoryUtilization: 0.85, precision: 'bf16' })
    expect(argv.join(' ')).toBe(
      'trtllm-serve serve org/half --host=127.0.0.1 --port=8501 --max_batch_size=64 --max_num_tokens=2048 --kv_cache_free_gpu_memory_fraction=0.85 --tp_size=2 --extra_llm_api_options=/runs/1/trtllm.yaml',
    )
    expect(environment).toEqual({})
    expect(files.map(({ path, contents }) => [path, parse(contents)])).toEqual([
      [
        'trtllm.yaml',
        {
          enable_chunked_prefill: true,
          return_perf_metrics: true,
          dtype: 'bfloat16',
          kv_cache_config: { dtype: 'fp8', free_gpu_memory_fraction: 0.85 },
        },
      ],
    ])
  })
  test.each<[LanguageServer, string, string]>([
    ['vllm', 'fp8_e4m3', 'fp8_e4m3'],
    ['sglang', 'fp8_e4m3', 'fp8_e4m3'],
    ['sglang', 'fp8_e5m2', 'fp8_e5m2'],
    ['tgi', 'fp8_e4m3', 'fp8_e4m3fn'],
    ['tgi', 'fp8_e5m2', 'fp8_e5m2'],
  ])('%s: a cache in %s is %s there', (kind, kvCacheDtype, word) =>
    expect(filledOf(kind, { kvCacheDtype }).argv).toContain(`--kv-cache-dtype=${word}`),
  )
  const parallel = { gpus: 8, pipelineParallelSize: 2, dataParallelSize: 2 }
  test.each<[LanguageServer, string]>([
    ['vllm', '--tensor-parallel-size=2 --pipeline-parallel-size=2 --data-parallel-size=2'],
    ['sglang', '--tp-size=2 --pp-size=2 --dp-size=2'],
  ])('%s: the GPUs of a replica are split over stages and copies', (kind, flags) =>
    expect(filledOf(kind, parallel).argv.join(' ')).toContain(flags),
  )
  test.each<[LanguageServer, Configuration, readonly string[]]>([
    ['vllm', { enablePrefixCaching: 'off' }, ['--no-enable-prefix-caching']],
    [
      'vllm',
      { enablePrefixCaching: 'on', enableChunkedPrefill: 'off' },
      ['--enable-prefix-caching', '--no-enable-chunked-prefill'],
    ],
    ['sglang', { enablePrefixCaching: 'off' }, ['--disable-radix-cache']],
    ['sglang', { enablePrefixCaching: 'on' }, []],
    [
      'sglang',
      { maxNumBatchedTokens: 2048, enableChunkedPrefill: 'off' },
      ['--chunked-prefill-size=-1'],
    ],
    [
      'tensorrt-llm',
      { gpus: 4, pipelineParallelSize: 2 },
      ['--tp_size=2', '--pp_size=2', '--extra_llm_api_options=/runs/1/trtllm.yaml'],
    ],
  ])('%s: %j is %j', (kind, configuration, flags) => {
    const { argv } = filledOf(kind, configuration)
    const before = argv.findLastIndex((word) =>
      /^--(served-model-name|enable-metrics|port)/.test(word),
    )
    expect(argv.slice(before + 1)).toEqual(flags)
  })
  test('TensorRT-LLM: caching of prefixes and prompts in pieces stand in its file', () => {
    const { files } = filledOf('tensorrt-llm', {
      enablePrefixCaching: 'off',
      enableChunkedPrefill: 'off',
    })
    expect(parse(files[0]!.contents)).toMatchObject({
      enable_chunked_prefill: false,
      kv_cache_config: { enable_block_reuse: false },
    })
  })
  test('a variable that none of them reads is refused, one in capitals is meant', () => {
    const start = (kind: LanguageServer) =>
      template(kind, {
        command: createServerCommand(kind, 'org/half'),
        server: { kind, modelPath: 'org/half' },
      })
    expect(
      findTemplateProblems(start('vllm'), [
        env('blockSize'),
        env('VLLM_ATTENTION_BACKEND'),
        env('pipelineParallelSize'),
      ]),
    ).toEqual([
      expect.stringMatching(
        /^parameter blockSize: vllm does not read a variable BLOCK_SIZE; use category: args/,
      ),
    ])
    expect(findTemplateProblems(start('tgi'), [server('enablePrefixCaching')])).toEqual([
      expect.stringContaining('enablePrefixCaching'),
    ])
    const args = [{ name: 'blockSize', category: 'args' as const }]
    const filled = (kind: LanguageServer) =>
      fillCommand(start(kind), args, { blockSize: 32 }, values).argv
    expect(
      [filled('vllm'), filled('tensorrt-llm')].map((argv) =>
        argv.find((word) => /block.size/.test(word)),
      ),
    ).toEqual(['--block-size=32', '--block_size=32'])
  })
  test('TensorRT-LLM reads from its weights how they are quantised: it cannot be told', () => {
    expect([
      ...selectServerParameters('tensorrt-llm', ['quantization', 'kvCacheDtype', 'maxSeqLen']),
    ]).toEqual(['kvCacheDtype', 'maxSeqLen'])
  })
})

describe('speculative decoding in the words of each server', () => {
  const drafting = (method: string) => ({
    speculativeTokens: 3,
    speculativeMethod: method,
    speculativeModel: 'org/draft',
  })
  const saidBy = (kind: LanguageServer, configuration: Configuration) => {
    const command = createServerCommand(kind, 'org/half')
    const filled = fillCommand(
      template(kind, { command, server: { kind, modelPath: 'org/half' } }),
      [],
      configuration,
      values,
    )
    const options = Object.fromEntries(
      filled.files.flatMap(({ contents }) => Object.entries(parse(contents) as object)),
    )
    return { words: filled.argv.filter((word) => word.startsWith('--spec')), options }
  }

  test.each<[LanguageServer, string, readonly string[]]>([
    [
      'vllm',
      'ngram',
      ['--speculative-config={"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4}'],
    ],
    [
      'vllm',
      'eagle3',
      ['--speculative-config={"method":"eagle3","model":"org/draft","num_speculative_tokens":3}'],
    ],
    ['sglang', 'ngram', ['--speculative-algorithm=NGRAM', '--speculative-num-draft-tokens=4']],
    [
      'sglang',
      'eagle3',
      [
        '--speculative-algorithm=EAGLE3',
        '--speculative-draft-model-path=org/draft',
        '--speculative-num-steps=3',
        '--speculative-eagle-topk=1',
        '--speculative-num-draft-tokens=4',
      ],
    ],
    ['tgi', 'ngram', ['--speculate=3']],
  ])('%s: %s', (kind, method, flags) => {
    expect(saidBy(kind, drafting(method)).words).toEqual(flags)
    expect(saidBy(kind, { ...drafting(method), speculativeTokens: 0 }).words).toEqual([])
  })

  test('SGLang: a draft model', () =>
    expect(saidBy('sglang', drafting('draft')).words[0]).toBe('--speculative-algorithm=STANDALONE'))

  test.each([
    ['ngram', { decoding_type: 'NGram', max_draft_len: 3, max_matching_ngram_size: 4 }, true],
    [
      'draft',
      { decoding_type: 'DraftTarget', max_draft_len: 3, speculative_model_dir: 'org/draft' },
      true,
    ],
    [
      'eagle3',
      { decoding_type: 'Eagle', max_draft_len: 3, speculative_model_dir: 'org/draft' },
      undefined,
    ],
  ] as const)("TensorRT-LLM's file: %s", (method, config, waits) => {
    const { options } = saidBy('tensorrt-llm', drafting(method))
    expect(options).toMatchObject({ speculative_config: config })
    expect((options as { disable_overlap_scheduler?: boolean }).disable_overlap_scheduler).toBe(
      waits,
    )
    expect(saidBy('tensorrt-llm', { speculativeTokens: 0 }).options).not.toHaveProperty(
      'speculative_config',
    )
  })

  test('a method that a server does not have, and a draft model that is not named', () => {
    expect(findDraftFault('vllm', 'ngram', undefined)).toBeUndefined()
    expect(findDraftFault('vllm', 'draft', 'org/draft')).toEqual({
      what: 'vllm does not support speculativeMethod draft',
      hint: 'use ngram or eagle3, or another server',
    })
    expect(findDraftFault('sglang', 'draft', undefined)?.what).toMatch(/needs a draft model/)
  })
})

test('what the server does not take must reach it otherwise', () => {
  expect([
    ...selectServerParameters('triton', ['instances', 'preferredBatchSize', 'numBatchThreads']),
  ]).toEqual(['preferredBatchSize', 'instances'])
  expect(
    findTemplateProblems(template('tfserving'), [server('batchSize'), server('workers')]),
  ).toEqual([expect.stringMatching(/^parameter workers \(server\) never reaches the predictor/)])
  expect(
    findTemplateProblems(template('tfserving'), [server('batchSize'), server('maxBatchSize')]),
  ).toEqual([expect.stringMatching(/^parameter batchSize \(server\) never reaches the predictor/)])
})
