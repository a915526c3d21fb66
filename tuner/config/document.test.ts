import { mkdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { testCertificate, testKey } from '../../profiler/testing/certificate.ts'
import { validateSpace } from '../../search/space/validation.ts'
import { describeExperiment } from './describe-experiment.ts'
import type { FlagValues } from './flags/flags.ts'
import { loadExperimentDocument } from './load-experiment.ts'
import { bert, findOrigin, machine, useWorkspace } from './testing/workspace.ts'
import { ConfigError } from './types.ts'

const { path, write, load, loadFile } = useWorkspace()

test('what the store keeps makes the same experiment again', () => {
  mkdirSync(path('models/mine'), { recursive: true })
  write('trace.csv', '0\n5\n9\n')
  write('body.jsonl', '{}\n')
  write('texts.txt', 'some text\n')
  write('ca.pem', '-----BEGIN CERTIFICATE-----\n')
  write('client.pem', testCertificate)
  write('client.key', testKey)
  write('sizes.csv', 'ms,items\n0,1\n7,4\n')
  write('prices.yaml', 'gpus:\n  T4: 0.4\n')
  const files: [string, FlagValues][] = [
    ['model: bert\nslo: 50ms', {}],
    ['model: bert\nslo: 50ms\nbackend: simulated\ndevices: gpu', {}],
    [
      'model: bert\nslo: 50ms\nload: {payload: {file: texts.txt, items: "1:70, 8:30", count: 9}}',
      {},
    ],
    ['model: bert\nslo: 50ms\nload: {arrivals: "trace:sizes.csv", payload: texts.txt}', {}],
    [
      'model: bert\nslo: p95<80ms\ndemand: 500 rps\nheadroom: 25%',
      { pin: ['cpuCores=2', 'instances=2'], gpus: 'T4,none', out: 'results' },
    ],
    [
      'model: {path: models/mine}\nslo: 1s\ndevices: cpu\nload: {arrivals: "trace:trace.csv", payload: body.jsonl}\nprices: prices.yaml\nconfirm: false',
      {},
    ],
    [
      'model: any\nslo: 50ms\npredictor: {command: [serve, "${port}", "${blocks}"], env: {A: b}, files: {"c.txt": "x"}, argFormat: ["--${kebab-name}", "${value}"], protocol: json, path: /p, healthPath: /ready, body: {text: "{{text}}"}, headers: {accept: text/plain}, readyTimeout: 90s}\n' +
        'space: {mode: {values: [a, b], category: args}, depth: {kind: int, min: 1, max: 9, step: 2, when: mode == a, monotone: down, concurrency: true}, level: {kind: categorical, values: [1, 2]}, blocks: {values: 1..8 x2, category: server, scale: log}}\n' +
        'constraints: depth < 8\nobjective: max-rate\nmaxPricePerHour: $2\nload: {arrivals: gamma:1.5, timeout: 3s}\nstop: {tolerance: 10%, certainty: 0.9}',
      {},
    ],
    [
      'model: any\nslo: 50ms\npredictor: {url: "http://127.0.0.1:8000", protocol: tfserving, http2: true}\npin: {gpu: T4, cpuCores: 4}',
      {},
    ],
    [
      'model: any\nslo: 50ms\npredictor: {command: [serve, "${port}", 3], env: {A: 1}, protocol: json, path: /p, form: {words: [one, 2], flag: true, n: 4}}\nmetrics: {name: queue_depth, labels: {shard: 1}}\npin: {cpuCores: 1}\nconstraints: cpuCores <= 4\nconfirm: "false"',
      {},
    ],
    [
      'model: any\nslo: 50ms\npredictor: {url: "grpcs://127.0.0.1:8001", protocol: grpc-v2, headers: {x-key: a}, ca: ca.pem, insecureSkipVerify: false}',
      {},
    ],
    [
      'model: any\nslo: 50ms\npredictor: {url: "https://h", protocol: tfserving, signature: classify, tls: {cert: client.pem, key: client.key}}',
      {},
    ],
  ]
  for (const [text, flags] of files) {
    const { document, origins, ...first } = loadFile(text, flags)
    const stored = JSON.parse(JSON.stringify(document))
    const again = loadExperimentDocument(stored, 'x-1', { cwd: '/', machine })
    const plain = (value: unknown) => JSON.parse(JSON.stringify(value))
    expect(plain({ ...again, document: undefined, origins: undefined })).toEqual(plain(first))
    expect(plain(again.document)).toEqual(stored)
    expect(Object.values(origins).every((origin) => origin !== undefined)).toBe(true)
    for (const row of describeExperiment(again)) expect(row.value).not.toContain('[object')
  }
})

test('a resumed experiment takes flags over what was stored', () => {
  const { document } = load(bert)
  const again = loadExperimentDocument(
    document,
    'bert-1',
    { cwd: path(), machine },
    { maxTrials: '99' },
  )
  expect(again.budget.maxTrials).toBe(99)
  expect(findOrigin(again, 'budget.maxTrials')).toBe('--max-trials')
  expect(findOrigin(again, 'slo.limit')).toBe('experiment bert-1')
})
test('any document is read or refused with places, whatever stands where', () => {
  const whole = parse(
    readFileSync(new URL('../../examples/experiment.yaml', import.meta.url), 'utf8'),
  ) as Record<string, unknown>
  const odd = fc.oneof(
    fc.constantFrom(
      null,
      true,
      -1,
      0,
      1.5,
      Number.NaN,
      '',
      'x',
      '50ms',
      '1..4',
      [],
      {},
      [1, 'a', null],
      { kind: 'gamma' },
      { kind: 'trace' },
      { a: { b: 1 } },
    ),
    fc.jsonValue({ maxDepth: 3 }),
  )
  const paths = Object.entries(whole).flatMap(([key, value]) => [
    [key],
    ...(typeof value === 'object' && value ? Object.keys(value).map((inner) => [key, inner]) : []),
  ])
  fc.assert(
    fc.property(
      fc.array(
        fc.tuple(
          fc.constantFrom(...paths, ['odd'], ['space', 'odd'], ['space', 'batchSize', 'values']),
          odd,
        ),
        {
          minLength: 1,
          maxLength: 4,
        },
      ),
      (changes) => {
        const document = structuredClone(whole)
        for (const [path, value] of changes) {
          let owner = document
          for (const step of path.slice(0, -1)) {
            if (typeof owner[step] !== 'object' || owner[step] === null) owner[step] = {}
            owner = owner[step] as Record<string, unknown>
          }
          owner[path.at(-1)!] = value
        }
        try {
          const { space } = loadExperimentDocument(document, 'odd', { cwd: path(), machine })
          expect(validateSpace(space)).toEqual([])
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigError)
          for (const problem of (error as ConfigError).problems) {
            expect(problem.what).not.toMatch(/undefined|\[object/)
            expect(problem.where).toBe('experiment odd')
          }
        }
      },
    ),
    { numRuns: fc.readConfigureGlobal().numRuns ?? 200 },
  )
})
