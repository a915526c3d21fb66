/** `tune import`, and what every other command makes of what it keeps. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { recommendationDocument } from '../../../../reports/report/recommendation-json.ts'
import { CliBox } from '../../../testing/run-cli.ts'
import { WarmCli } from '../../../testing/warm-cli.ts'

const tune = new WarmCli()
const box = new CliBox()
const run = (...words: string[]) => tune.run(box, words)
const fixture = (name: string) =>
  fileURLToPath(new URL(`../../../../reports/imports/fixtures/${name}`, import.meta.url))
const triton = [fixture('metrics-model-inference.csv'), fixture('metrics-model-gpu.csv')]
const onT4 = ['--slo', '30ms', '--on', 'gpu=T4,cpuCores=4']
let id = ''

beforeAll(async () => {
  const { code, stdout } = await run('import', ...triton, ...onT4, '--json')
  expect(code).toBe(0)
  const document = recommendationDocument.parse(JSON.parse(stdout))
  expect(document).toMatchObject({
    provenance: 'imported',
    conclusion: 'imported',
    measuredWith: { how: 'imported', server: 'imported', model: 'bert' },
  })
  expect(document.best).toMatchObject({
    status: 'imported',
    capacityRps: 420,
    configuration: { gpu: 'T4', instances: 2 },
  })
  id = document.experimentId
})
afterAll(async () => {
  await box.end()
  await tune.end()
})

describe('an imported experiment', () => {
  test('is shown as one, under its own and another limit, and is never confirmed', async () => {
    const { code, stdout } = await run('show', id)
    expect(code).toBe(4)
    expect(stdout).toMatch(/^bert-\w+: bert, done, imported,/)
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain(
      'Recommended: 4 cores, T4, maxBatchSize 8, 2 instances, imported from metrics-model-inference.csv',
    )
    expect(stdout).toMatch(
      /at least 420 req\/s [\s\S]*SLO +as another tool measured it\n +Cheapest +not known: there was no search/,
    )
    expect(stdout).toContain('IMPORTED: all figures come from Model Analyzer')
    expect(stdout).not.toMatch(/seed|estimate/)
    expect((await run('show', id, '--slo', '25ms')).stdout).toContain('300 req/s')
    const unknown = await run('show', id, '--slo', 'p95<25ms')
    expect([unknown.code, unknown.stdout.replaceAll(/\s+/g, ' ')]).toEqual([
      1,
      expect.stringContaining(
        'the imported results do not have its p95; import them again with that SLO',
      ),
    ])
    expect((await run('show', id, '--slo', '1ms')).code).toBe(3)
  })

  test('is in the list and in the reports, its file beside its figures', async () => {
    expect((await run('list')).stdout).toMatch(
      /imported: 4 cores, T4, .* imported from metrics-model-inference\.csv/s,
    )
    for (const name of ['r.md', 'r.csv', 'r.html']) {
      expect((await run('report', id, '--out', name)).code).toBe(0)
      const text = readFileSync(join(box.folder, name), 'utf8')
      expect(text).toContain('metrics-model-inference.csv')
      expect(text).not.toContain('NaN')
    }
    expect(readFileSync(join(box.folder, 'r.md'), 'utf8')).toContain('tune measured none of them')
    expect((await run('compare', id, id)).stdout).toContain('(loads: at least 420 req/s)')
  })

  test('fails no build, and passes none: nothing says how far its figures may be off', async () => {
    expect((await run('ci', id, '--save-baseline', 'baseline.json')).code).toBe(0)
    const { code, stdout } = await run('ci', id, '--baseline', 'baseline.json', '--json')
    expect(code).toBe(0)
    const states = JSON.parse(stdout).checks.map(
      ({ name, state }: { name: string; state: string }) => `${name} ${state}`,
    )
    expect(states).toEqual(['slo passed', 'confirmed undecided', 'regression undecided'])
  })

  test('is not run again, and deploys nothing that is not named', async () => {
    const again = await run('resume', id, '--max-trials', '20')
    expect([again.code, again.stderr]).toEqual([
      2,
      expect.stringContaining('these are results of another tool'),
    ])
    const spec = await run('spec', id)
    expect([spec.code, spec.stderr]).toEqual([
      2,
      expect.stringContaining('name the server to deploy, such as --server triton'),
    ])
    const named = await run('spec', id, '--server', 'triton', '--target', 'triton')
    expect(named.stdout).toMatch(
      /FIGURES ARE FROM ANOTHER SERVER THAN THIS DEPLOYS: imported from another tool/,
    )
    expect(named.stdout).toContain('gpu = T4')
    expect(named.stdout).toMatch(/gpu = T4 +imported, trial 2/)
  })
})

test('files of servers that differ, each with its price', async () => {
  const words = [
    `gpu=L4,cpuCores=4@${fixture('guidellm-benchmarks.json')}`,
    `gpu=H100,cpuCores=16@${fixture('guidellm-benchmarks.csv')}`,
  ]
  const { code, stdout } = await run(
    'import',
    ...words,
    '--slo',
    'ttft p99<200ms',
    '--model',
    'llama',
    '--rps',
    '50',
  )
  expect(code).toBe(0)
  expect(stdout).toMatch(
    /Recommended: 4 cores, L4, imported from guidellm-benchmarks\.json +imported\n +22\.5 req\/s at TTFT p99 180 ms \(SLO 200 ms\), 3 replicas/,
  )
  expect(stdout).toContain('16 cores, H100, imported from guidellm-benchmarks.csv')
})

describe('is refused, and keeps nothing', () => {
  test.each([
    [
      [triton[0]!, '--slo', '30ms'],
      'the resources of the server of metrics-model-inference.csv are unknown, so it has no price',
    ],
    [[triton[0]!, '--slo', '30ms', '--on', 'instances=2'], 'set gpu or cpuCores'],
    [[triton[0]!, '--slo', '30ms', '--on', 'gpu'], "--on: 'gpu' has no value"],
    [[triton[0]!, '--slo', '30ms', '--on', 'gpu=T5'], 'T5'],
    [[triton[0]!, '--slo', '30ms', '--on', 'gpu=T4,memoryMiB=much'], 'memoryMiB'],
    [[triton[0]!, '--slo', 'ttft p99<1s tpot<30ms', '--on', 'gpu=T4'], 'no joint percentile'],
    [[triton[0]!, '--slo', 'soon', '--on', 'gpu=T4'], 'soon'],
    [[triton[1]!, ...onT4], 'it describes GPUs, but contains no requests'],
    [
      [fixture('k6-summary-export.json'), ...onT4],
      'the files do not contain the name of the model',
    ],
    [['.', ...onT4], 'is a folder'],
  ])('%j', async (words, said) => {
    const before = JSON.parse((await run('list', '--json')).stdout).length
    const { code, stdout, stderr } = await run('import', ...words)
    expect(stdout + stderr).toContain(said)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(JSON.parse((await run('list', '--json')).stdout)).toHaveLength(before)
  })

  test('whatever is wrong with any of the files is told at once', async () => {
    writeFileSync(
      join(box.folder, 'cut.json'),
      readFileSync(fixture('guidellm-benchmarks.json'), 'utf8').slice(0, 3000),
    )
    writeFileSync(join(box.folder, 'else.csv'), 'batch,price\n1,2\n')
    const { code, stderr } = await run(
      'import',
      'gone.csv',
      'cut.json',
      'else.csv',
      triton[0]!,
      ...onT4,
    )
    expect(code).toBe(2)
    expect(stderr).toMatch(/^gone\.csv: cannot read the file gone\.csv: ENOENT/m)
    expect(stderr).toMatch(/^cut\.json: it starts like JSON but is not valid JSON/m)
    expect(stderr).toMatch(
      /^else\.csv: it is not a result of Model Analyzer, perf_analyzer, vllm bench serve/m,
    )
  })
})
