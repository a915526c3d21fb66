import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import type { Configuration } from '../../search/types.ts'
import { fillCommand } from '../launchers/fill.ts'
import type { CommandTemplate } from '../launchers/template.ts'
import { findTemplateProblems } from '../launchers/template-problems.ts'
import type { ServerKind } from './server-kinds.ts'

const folder = mkdtempSync(join(tmpdir(), 'own-settings-'))
afterAll(() => rmSync(folder, { recursive: true }))
const fileOf = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}
const values = { host: 'h', port: 80, model: 'm', trial: 1, dir: '/runs/1', gpuMemoryFraction: 0 }
const template = (
  kind: ServerKind,
  command: readonly string[],
  more: Partial<CommandTemplate> = {},
): CommandTemplate => ({
  kind: 'command',
  model: 'm',
  command,
  protocol: 'tfserving',
  server: { kind, modelPath: '/models/m' },
  ...more,
})
const filled = (given: CommandTemplate, configuration: Configuration) =>
  fillCommand(given, [], configuration, values)
const server = (name: string) => ({ name, category: 'server' as const })

describe("TensorFlow Serving's batching file of the user's", () => {
  const own = 'max_batch_size { value: 32 }\npad_variable_length_inputs: true\n'
  const flag = (path: string) => `--batching_parameters_file=${path}`

  test('keeps what is not tuned, and the file of the trial takes its place', () => {
    const { argv, files } = filled(
      template('tfserving', ['tfs', flag(fileOf('own.txt', own)), '--file_system_poll=1']),
      { batchSize: 8 },
    )
    expect(argv.filter((word) => word.includes('batching_parameters'))).toEqual([
      flag('/runs/1/batching_parameters.txt'),
    ])
    expect(argv).toContain('--file_system_poll=1')
    expect(files).toEqual([
      {
        path: 'batching_parameters.txt',
        contents: 'max_batch_size {\n  value: 8\n}\npad_variable_length_inputs: true\n',
      },
    ])
  })

  test.each<[string, Configuration, string]>([
    ['one of the trial folder', { batchSize: 8 }, 'pad_variable_length_inputs: true'],
    ['threads alone', { numBatchThreads: 3 }, 'num_batch_threads {\n  value: 3\n}'],
  ])('%s', (_what, configuration, contents) => {
    const files = [{ path: 'own.txt', template: own }]
    const given = template('tfserving', ['tfs', flag('/runs/1/own.txt')], { files })
    expect(filled(given, configuration).files[1]!.contents).toContain(contents)
  })

  test('its allowed sizes stay below the tuned largest batch, which ends them', () => {
    const sizes =
      '# sizes\nallowed_batch_sizes: 2\nallowed_batch_sizes: 6\nallowed_batch_sizes: 32\n'
    const given = template('tfserving', ['tfs', flag(fileOf('sizes.txt', sizes))])
    const [{ contents } = { contents: '' }] = filled(given, { batchSize: 8 }).files
    expect(contents.match(/allowed_batch_sizes: \d+/g)).toEqual([
      'allowed_batch_sizes: 2',
      'allowed_batch_sizes: 6',
      'allowed_batch_sizes: 8',
    ])
  })

  test.each([
    [
      '/nowhere/own.txt',
      /cannot merge tuned values into \/nowhere\/own.txt, which --batching_parameters_file names: .*ENOENT/,
    ],
    [fileOf('bad.txt', 'max_batch_size {'), /bad.txt: line 1 .*max_batch_size/],
  ])('%s cannot be merged: named before any trial, and in it', (path, message) => {
    const given = template('tfserving', ['tfs', flag(path)])
    expect(findTemplateProblems(given, [server('batchSize')])).toEqual([
      expect.stringMatching(message),
    ])
    expect(() => filled(given, { batchSize: 8 })).toThrow(message)
  })
})

test("TensorFlow Serving's own model_config_file names the models", () => {
  const command = [
    'tfs',
    '--model_config_file=/models.config',
    '--monitoring_config_file=/m.config',
  ]
  const { argv } = filled(template('tfserving', command), { batchSize: 2 })
  expect(argv.slice(0, 3)).toEqual(command)
  expect(argv.join(' ')).not.toMatch(/--model_(name|base_path)/)
})

describe("Triton's metrics and gRPC", () => {
  test.each<[readonly string[], number | undefined, RegExp, RegExp]>([
    [[], undefined, /--allow-grpc=false --allow-metrics=false/, /metrics-port/],
    [[], 8002, /--allow-metrics=true --metrics-port=8002/, /allow-metrics=false/],
    [['--metrics-port', '9000'], 9000, /--metrics-port 9000/, /allow-metrics|--metrics-port=/],
    [['--allow-grpc=true'], undefined, /--allow-grpc=true/, /--allow-grpc=false/],
  ])('%j, read on port %s', (own, metricsPort, has, lacks) => {
    const preset = { kind: 'triton' as const, modelPath: '/models/m', metricsPort }
    const given = template('triton', ['tritonserver', ...own], { server: preset })
    const line = filled(given, {}).argv.join(' ')
    expect(line).toMatch(has)
    expect(line).not.toMatch(lacks)
  })
})

test("TensorRT-LLM's options of the user's are merged, and what flags say is set in them too", () => {
  const path = fileOf(
    'llm.yaml',
    'max_batch_size: 512\nenable_chunked_prefill: false\ncuda_graph_config:\n  enable_padding: true\nkv_cache_config:\n  host_cache_size: 7\n',
  )
  const given = template('tensorrt-llm', ['trtllm-serve', 'x', '--extra_llm_api_options', path])
  const tuned = { maxNumSeqs: 64, enablePrefixCaching: 'on', gpuMemoryUtilization: 0.8 }
  const { argv, files } = filled(given, tuned)
  expect(argv).not.toContain(path)
  expect(argv).toContain('--extra_llm_api_options=/runs/1/trtllm.yaml')
  expect(parse(files[0]!.contents)).toEqual({
    max_batch_size: 64,
    enable_chunked_prefill: false,
    return_perf_metrics: true,
    cuda_graph_config: { enable_padding: true },
    kv_cache_config: {
      host_cache_size: 7,
      free_gpu_memory_fraction: 0.8,
      enable_block_reuse: true,
    },
  })
  const chunked = filled(given, { enableChunkedPrefill: 'on' }).files[0]!.contents
  expect(parse(chunked).enable_chunked_prefill).toBe(true)
})

test('an argument with a placeholder is tuned, not fixed', () => {
  const own = template('vllm', ['vllm', 'serve', 'x', '--max-num-seqs', '${maxNumSeqs}'])
  expect(findTemplateProblems(own, [server('maxNumSeqs')])).toEqual([])
})

test.each<[string, readonly string[], string, 'env' | 'args' | 'server', string | undefined]>([
  ['of its name', ['py', 'app.py', '--batch-size', '8'], 'batchSize', 'env', '--batch-size'],
  ['with =', ['py', 'app.py', '--batch_size=8'], 'batchSize', 'args', '--batch_size'],
  ['in camel case', ['py', 'app.py', '--batchSize=8'], 'batchSize', 'env', '--batchSize'],
  ['of a known server', ['gunicorn', '-w', '4', 'app:app'], 'workers', 'env', '-w'],
  ['glued to it', ['gunicorn', '-w4', 'app:app'], 'workers', 'env', '-w4'],
  [
    'of a known one without preset',
    ['vllm', 'serve', 'm', '--max-num-seqs', '64'],
    'maxNumSeqs',
    'args',
    '--max-num-seqs',
  ],
  [
    'a variable before it',
    ['env', 'BATCH_SIZE=8', 'py', 'app.py'],
    'batchSize',
    'env',
    'BATCH_SIZE',
  ],
  [
    'a placeholder',
    ['py', 'app.py', '--batch-size', '${batchSize}'],
    'batchSize',
    'server',
    undefined,
  ],
  [
    'the variable, tuned',
    ['env', 'BATCH_SIZE=${batchSize}', 'py'],
    'batchSize',
    'server',
    undefined,
  ],
  ['of another', ['py', 'app.py', '--max-batch', '8', '--size=2'], 'batchSize', 'env', undefined],
])('a flag that fixes what is tuned is named: %s', (_what, command, name, category, flag) => {
  const { server: _, ...own } = template('triton', command)
  expect(findTemplateProblems(own, [{ name, category }])).toEqual(
    flag === undefined
      ? []
      : [
          `command: it fixes ${flag}, which parameter ${name} sets: remove it from the command, or pin the parameter`,
        ],
  )
})

test.each<[ServerKind, readonly string[], string, string]>([
  ['vllm', ['vllm', 'serve', 'x', '--max-num-seqs', '64'], 'maxNumSeqs', '--max-num-seqs'],
  ['vllm', ['vllm', 'serve', 'x', '--max_num_seqs=64'], 'maxNumSeqs', '--max_num_seqs'],
  ['tfserving', ['tfs', '--rest_api_num_threads=4'], 'restApiNumThreads', '--rest_api_num_threads'],
])('%s: %j fixes what %s tunes, which is named', (kind, command, name, flag) => {
  expect(findTemplateProblems(template(kind, command), [server(name)])).toEqual([
    `command: it fixes ${flag}, which parameter ${name} sets: remove it from the command, or pin the parameter`,
  ])
})
