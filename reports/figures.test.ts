import { expect, test } from 'vitest'
import type { MeasuredWith } from '../trials/measured-with.ts'
import {
  classifyFigures,
  describeDeployment,
  formatFiguresStatus,
  formatVerifyCommand,
  resolveDeployed,
  resolveServerProtocol,
} from './figures.ts'
import { slo } from './samples.contract.ts'

const cpu: MeasuredWith = {
  how: 'measured',
  server: 'builtin',
  engine: 'tfjs',
  model: 'bert',
  protocol: 'oip-v2',
  modelKind: 'encoder',
  weights: 'random',
}
const onT4: MeasuredWith = {
  ...cpu,
  how: 'emulated',
  engine: 'emulated',
  weights: 'none',
  gpu: 'T4',
}
const tfjs = { server: 'builtin', engine: 'tfjs', weights: 'given' } as const

test('figures hold of what was measured for real, and of nothing else', () => {
  expect(classifyFigures(cpu, tfjs)).toMatchObject({
    apply: true,
    mismatches: [],
    remarks: [expect.stringContaining('random weights of bert')],
  })
  const doubtful: [MeasuredWith, Parameters<typeof classifyFigures>[1], RegExp, string][] = [
    [
      onT4,
      tfjs,
      /emulated, the GPU time of the T4 .*TensorRT.*deploys the built-in predictor with ENGINE=tfjs/,
      'emulated',
    ],
    [
      { ...onT4, how: 'simulated' },
      tfjs,
      /simulated with a device model of the T4, no server was launched/,
      'simulated',
    ],
    [
      { ...onT4, how: 'simulated', modelKind: 'decoder', standsFor: 'tensorrt-llm', gpu: 'H100' },
      { server: 'vllm', weights: 'given' },
      /with a model of TensorRT-LLM on H100, .*deploys vLLM/,
      'simulated',
    ],
    [
      cpu,
      { server: 'triton', weights: 'given' },
      /measured with the built-in predictor with ENGINE=tfjs; this deploys NVIDIA Triton/,
      'of-another-server',
    ],
    [cpu, { ...tfjs, engine: 'onnx' }, /ENGINE=tfjs; .*ENGINE=onnx/, 'of-another-server'],
    [
      { ...cpu, server: 'url', engine: undefined, url: 'http://x' },
      { server: 'url', weights: 'own' },
      /measured at http:\/\/x, a running server/,
      'of-another-server',
    ],
    [
      { ...cpu, server: 'command', engine: undefined, command: ['gunicorn'] },
      { server: 'vllm', weights: 'given' },
      /own command; this deploys vLLM/,
      'of-another-server',
    ],
  ]
  for (const [measured, deployed, doubt, word] of doubtful) {
    const figures = classifyFigures(measured, deployed)
    expect(figures.apply).toBe(false)
    expect(figures.mismatches.join()).toMatch(doubt)
    expect(formatFiguresStatus(figures)).toBe(word)
  }
  const vllm = {
    ...cpu,
    server: 'command',
    engine: undefined,
    command: ['/opt/bin/vllm', 'serve', 'm'],
  } as const
  expect(classifyFigures(vllm, { server: 'vllm', weights: 'given' }).apply).toBe(true)
  expect(formatFiguresStatus(classifyFigures(cpu, tfjs))).toBe('measured')
})

test('beside a verdict: nothing where the figures are those of what deploys', () => {
  expect(describeDeployment(cpu)).toBeUndefined()
  expect(describeDeployment(onT4)).toMatch(
    /^tune spec deploys the built-in predictor with ENGINE=tfjs, .*tune verify --url/,
  )
  expect(describeDeployment({ ...onT4, modelKind: 'decoder' })).toMatch(/^tune spec deploys vLLM, /)
  expect(resolveDeployed({ ...onT4, modelKind: 'decoder' })).toEqual({ server: 'vllm' })
  expect(resolveDeployed({ ...onT4, modelKind: 'decoder', standsFor: 'tgi' })).toEqual({
    server: 'tgi',
  })
  expect(resolveDeployed({ ...cpu, engine: 'onnx' })).toEqual({ server: 'builtin', engine: 'onnx' })
  expect(resolveDeployed({ ...onT4, runsIn: 'onnx' })).toEqual({
    server: 'builtin',
    engine: 'onnx',
  })
})

test('the command that settles it is one line of a shell, its rate rounded down', () => {
  const at = { host: 'bert', protocol: 'oip-v2', model: 'bert', rateRps: 169.6, slo } as const
  expect(formatVerifyCommand(at)).toBe(
    "tune verify --url http://bert --model bert --rate 169rps --slo 'p99<50ms'",
  )
  const joint = {
    ...slo,
    percentile: 0.9,
    limitMs: 200,
    limits: [
      { metric: 'ttft', limitMs: 200 },
      { metric: 'tpot', limitMs: 30 },
    ],
  } as const
  expect(formatVerifyCommand({ ...at, model: "it's", rateRps: 0.5678, slo: joint })).toBe(
    "tune verify --url http://bert --model 'it'\\''s' --rate 0.567rps --slo 'p90 ttft<200ms tpot<30ms'",
  )
  expect(formatVerifyCommand({ ...at, protocol: 'openai' })).toContain(
    '--url http://bert --protocol openai --model',
  )
  expect(
    formatVerifyCommand({
      ...at,
      protocol: 'json',
      path: '/api/score',
      healthPath: '/alive?deep=1',
      body: '{"q": "{{text}}"}',
    }),
  ).toContain(
    `--protocol json --path /api/score --health-path '/alive?deep=1' --body '{"q": "{{text}}"}' --model bert`,
  )
  expect(formatVerifyCommand({ ...at, protocol: 'tfserving-grpc', grpcPort: 8500 })).toContain(
    '--url grpc://bert:8500 --protocol tfserving-grpc',
  )
})

test('a server is asked as it was measured, where it speaks that', () => {
  expect(resolveServerProtocol('builtin', 'tfserving-grpc')).toBe('tfserving-grpc')
  expect(resolveServerProtocol('tfserving', 'tfserving-grpc')).toBe('tfserving-grpc')
  expect(resolveServerProtocol('tfserving', 'oip-v2')).toBe('tfserving')
  expect(resolveServerProtocol('triton', 'json')).toBe('oip-v2')
  expect(resolveServerProtocol('vllm', 'oip-v2')).toBe('openai')
})
