import { describe, expect, test } from 'vitest'
import { machine, problemLines, useWorkspace, valuesOf } from './testing/workspace.ts'

const { loadFile } = useWorkspace()

describe('the space', () => {
  const space = (text: string, facts = machine) =>
    loadFile(`model: bert\nslo: 50ms\nspace:\n${text}`, {}, facts)

  test.each([
    'cpuCores',
    'memoryMiB',
    'gpus',
    'batchSize',
    'queueLimit',
    'instances',
    'cpuThreads',
    'sequenceLength',
    'imageSize',
  ])('%s beyond all that is built is refused with what there is', (name) => {
    expect(() => space(`  ${name}: [1, 1e300]`)).toThrow(
      new RegExp(`${name}: 1e\\+300 is above \\d+[\\s\\S]*at most \\d+`),
    )
  })

  test('each kind of parameter', () => {
    const experiment = space(
      [
        '  threads: {kind: int, min: 1, max: 8, category: env, scale: log}',
        '  delay: {min: 0.5, max: 2, step: 0.5, category: args}',
        '  growth: {min: 0.1, max: 0.9, category: env}',
        '  mode: {values: [a, b], category: env}',
        '  level: {kind: categorical, values: [1, 2], category: env}',
        '  blocks: {values: 16..256 x4, category: server}',
        '  memoryMiB: [2GiB, 4GiB]',
      ].join('\n'),
    )
    expect(experiment.space.parameters.slice(5)).toEqual([
      { name: 'threads', kind: 'int', min: 1, max: 8, scale: 'log', category: 'env' },
      {
        name: 'delay',
        kind: 'float',
        min: 0.5,
        max: 2,
        step: 0.5,
        scale: 'linear',
        category: 'args',
      },
      { name: 'growth', kind: 'float', min: 0.1, max: 0.9, scale: 'linear', category: 'env' },
      { name: 'mode', kind: 'categorical', values: ['a', 'b'], category: 'env' },
      { name: 'level', kind: 'categorical', values: ['1', '2'], category: 'env' },
      {
        name: 'blocks',
        kind: 'ordinal',
        values: [16, 64, 256],
        scale: 'linear',
        category: 'server',
      },
    ])
    expect(valuesOf(experiment, 'memoryMiB')).toEqual([2048, 4096])
  })

  test('conditions name what stands before', () => {
    const experiment = space(
      "  mode: {values: [a, b], category: env}\n  depth: {values: 1..4, category: env, when: mode == 'b'}",
    )
    const depth = experiment.space.parameters.find((p) => p.name === 'depth')!
    expect(depth.when?.holds({ mode: 'a' })).toBe(false)
    expect(
      problemLines(() =>
        space(
          '  depth: {values: 1..4, category: env, when: mode == 1}\n  mode: {values: 1..2, category: env}',
        ),
      ),
    ).toEqual(["e.yaml:4:46 'mode == 1': 'mode' is not a parameter (character 1)"])
  })

  test('with and without a GPU in one space, the share depends on there being one', () => {
    const share = space('  gpu: [none, T4]').space.parameters.find(
      (p) => p.name === 'gpuMemoryPercent',
    )!
    expect(share.when?.text).toBe("gpu != 'none'")
  })

  test('a large space that no configuration fits is found empty, one that few fit is not', () => {
    const large = '  a: {kind: float, min: 0, max: 1, category: env}\nconstraints:\n'
    expect(problemLines(() => space(`${large}  - a > 2`))).toEqual([
      "e.yaml:6:3 the space is empty: none of 20000 sampled configurations satisfies 'a > 2'",
    ])
    expect(space(`${large}  - a > 0.9`).space.constraints).toHaveLength(1)
  })

  test.each([
    [
      '{sequenceLength: 64..1024}',
      'sequenceLength: 1024 tokens, but bert-base supports at most 512',
    ],
    ['{imageSize: [224]}', 'imageSize has no effect on bert-base'],
    [
      '{gpu: [A100-40GB, T4], migProfile: [1g.5gb, 9g.1gb]}',
      'migProfile: none of A100-40GB, T4 has the profile 9g.1gb',
    ],
    ['{precision: [fp16, fp7]}', "precision: unknown precision 'fp7'"],
    ['{gpuMemoryPercent: [50]}\ndevices: cpu', 'gpuMemoryPercent has no effect without a GPU'],
    ['{workers: {kind: int, values: [1, x], category: env}}', "workers: 'x' is not a number"],
    [
      '{workers: {min: 0, max: 4, scale: log, category: env}}',
      'workers: a log scale that starts at 0',
    ],
    ['{workers: {min: 4, max: 1, category: env}}', 'workers: min 4 is above max 1'],
    ['{workers: {values: [1], max: 1, category: env}}', "workers: both 'max' and 'values'"],
    ['{batchSize: 1.5..4}', 'batchSize: 1.5 is not a whole number'],
    ['{gpu: 1..4}', 'gpu: a range of names'],
    ['{1st: [1, 2]}', "'1st' is not a valid parameter name"],
    [
      '{mode: {values: [a, b], category: env, features: {a: [1]}}}',
      'mode: no features for b, or a different number than for the others',
    ],
  ])('%s is refused', (text, problem) => {
    expect(
      problemLines(() => loadFile(`model: bert\nslo: 50ms\nspace: ${text}`)).map((line) =>
        line.replace(/^\S+ /, ''),
      ),
    ).toEqual([problem])
  })

  test('a parameter of a command that nearly is a standard one is asked about', () => {
    const text = (space: string) =>
      `model: bert\nslo: 50ms\npredictor: {command: serve}\nspace: ${space}`
    expect(problemLines(() => loadFile(text('{cpuCoers: 1..2}')))).toEqual([
      "e.yaml:4:19 'cpuCoers' looks like cpuCores",
    ])
    expect(
      loadFile(
        text('{cpu_cores: {values: 1..2, category: env}, BATCH_SIZE: 1..4, threads: 1..4}'),
      ).space.parameters.map((p) => p.name),
    ).toEqual(['cpuCores', 'cpu_cores', 'BATCH_SIZE', 'threads'])
  })

  test('a GPU that is not in this machine', () => {
    expect(problemLines(() => space('  gpu: [T4]', { cpuCores: 4, gpus: ['L4'] }))).toEqual([
      'e.yaml:4:8 this machine has no GPU T4',
    ])
  })

  test('a running server is measured as it is', () => {
    const text = 'model: bert\nslo: 50ms\npredictor: {url: http://127.0.0.1:8000}\n'
    expect(loadFile(`${text}pin: {cpuCores: 2, gpu: T4}`).pins).toEqual({ cpuCores: 2, gpu: 'T4' })
    expect(problemLines(() => loadFile(`${text}space: {batchSize: 1..4}`))).toEqual([
      'e.yaml:4:20 batchSize: tune cannot set parameters of a running server',
    ])
  })

  test("a command's parameters must reach it", () => {
    const text =
      'model: bert\nslo: 50ms\npredictor: {command: "serve --port ${port} --b ${batch}"}\n'
    expect(problemLines(() => loadFile(`${text}space: {workers: 1..4, batchSize: 1..4}`))).toEqual([
      expect.stringContaining('parameter batchSize (server) never reaches the predictor'),
      'e.yaml:3:22 predictor.command: unknown placeholder ${batch}',
    ])
  })
})
