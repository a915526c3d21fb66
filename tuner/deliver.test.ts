/** `tune spec`, `tune plan` and `tune report` on a stored experiment. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { complete, measured } from '../reports/samples.contract.ts'
import { checkManifests } from '../reports/specs/validate.contract.ts'
import { openStore } from '../trials/store/index.ts'
import { parseCsv } from '../trials/testing/parsed-csv.ts'
import type { FinishedTrial } from '../trials/types.ts'
import { type PlanFlags, plan } from './cli/commands/plan/run.ts'
import { report } from './cli/commands/report/run.ts'
import { spec } from './cli/commands/spec/run.ts'
import { loadExperiment } from './config/load-experiment.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-deliver-'))
const db = join(folder, 'tune.db')
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const t4 = (batchSize: number, gpuMemoryPercent: number) => ({
  cpuCores: 2,
  gpu: 'T4',
  gpuMemoryPercent,
  batchSize,
})
const trials: FinishedTrial[] = [
  complete(1, t4(1, 100), measured(150, 10), { purpose: 'default', usage: { launchSeconds: 12 } }),
  complete(2, t4(8, 25), measured(265, 10), {
    usage: { launchSeconds: 11, nodeWaitSeconds: 240, cpuCores: 1.1, gpuUtilization: 0.95 },
  }),
  complete(3, t4(16, 25), measured(240, 70)),
]

beforeAll(async () => {
  const experiment = loadExperiment({
    flags: { model: 'bert', slo: '50ms', devices: 'emulated', gpus: 'T4', db },
    environment: {},
    cwd: folder,
    machine: { cpuCores: 4, gpus: [] },
  })
  const store = await openStore(db)
  await store.create({
    id: 'bert-1',
    name: 'bert',
    createdAt: '2026-11-20T10:00:00.000Z',
    spec: experiment.document,
    provenance: 'emulated',
    seed: 1,
  })
  for (const trial of trials) await store.append('bert-1', trial)
  await store.finish('bert-1', 'done')
  await store.close()
})

let printed = ''
const listen = () => {
  printed = ''
  const keep = (text: unknown) => {
    printed += text
    return true
  }
  vi.spyOn(process.stdout, 'write').mockImplementation(keep)
  vi.spyOn(process.stderr, 'write').mockImplementation(keep)
}
afterEach(() => vi.restoreAllMocks())
const run = async (command: () => Promise<number>): Promise<string> => {
  listen()
  expect(await command()).toBe(0)
  return printed
}

describe('tune spec', () => {
  const flags = { db, target: 'kubernetes' }

  test('prints a valid manifest of the recommendation, sized for a demand', async () => {
    const text = await run(() =>
      spec('bert-1', { ...flags, rps: '1000', headroom: '20%', image: 'me/bert:1' }),
    )
    const { objects, problems } = checkManifests(text)
    expect(problems).toEqual([])
    // The T4 was emulated: nothing scales on its figures.
    expect(objects.map((o) => o.kind)).toEqual(['Deployment', 'Service', 'PodDisruptionBudget'])
    expect(text).toMatch(
      /^(# INCOMPLETE: .*\n)+# FIGURES ARE FROM ANOTHER SERVER THAN THIS DEPLOYS: emulated, the GPU time of the T4 .*ENGINE=tfjs\.\n# Check it once it runs: tune verify --url /,
    )
    expect(objects[0]).toMatchObject({
      metadata: {
        annotations: {
          'tune/experiment': 'bert-1',
          'tune/trial': '2',
          'tune/figures': 'emulated',
          'tune/verify': expect.stringContaining('tune verify'),
        },
      },
      spec: { replicas: 7 },
    })
    expect(text).toContain('replicas 7 ')
    expect(text).toContain('image: me/bert:1')
    expect(text).toContain('name: BATCH_SIZE\n              value: "8"')
  })

  test('of another trial, into files', async () => {
    const out = join(folder, 'k')
    await run(() => spec(undefined, { ...flags, trial: '1', out, autoscaler: 'none' }))
    expect(checkManifests(readFileSync(join(out, 'deployment.yaml'), 'utf8')).problems).toEqual([])
  })

  test('patches a manifest in place and says what it changed', async () => {
    const path = join(folder, 'mine.yaml')
    writeFileSync(
      path,
      '# mine\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b}\nspec:\n  selector: {matchLabels: {app: b}}\n  template:\n    metadata: {labels: {app: b}}\n    spec:\n      containers:\n      - name: b   # the server\n        image: x\n',
    )
    const text = await run(() => spec(undefined, { ...flags, patch: path, write: true }))
    expect(text).toContain(
      'Deployment b: spec.template.spec.containers.0.resources.requests.cpu: added -> "2"',
    )
    expect(text).toContain('not set: BATCH_SIZE = 8: this container is not the built-in predictor')
    const patched = readFileSync(path, 'utf8')
    expect(patched).toContain('# mine\n')
    expect(patched).toContain('      - name: b   # the server\n')
    expect(checkManifests(patched).problems).toEqual([])
    expect(await run(() => spec(undefined, { ...flags, patch: path }))).toContain(
      'nothing to change',
    )
  })

  test('refuses what it does not know', async () => {
    await expect(spec(undefined, { ...flags, target: 'nomad' })).rejects.toMatchObject({
      exitCode: 2,
      hint: expect.stringContaining('kserve'),
    })
    await expect(spec(undefined, { ...flags, trial: '9' })).rejects.toMatchObject({
      exitCode: 2,
      hint: expect.stringContaining('2, 1'),
    })
    await expect(spec(undefined, { ...flags, slo: '5ms' })).rejects.toMatchObject({ exitCode: 3 })
    await expect(
      spec(undefined, { ...flags, patch: join(folder, 'none.yaml') }),
    ).rejects.toMatchObject({ exitCode: 2 })
    await expect(spec('other', flags)).rejects.toMatchObject({ exitCode: 2 })
  })
})

describe('tune plan', () => {
  const flags: PlanFlags = {
    db,
    growth: '0%',
    headroom: '20%',
    zones: '3',
    reaction: '30s',
    minReplicas: '1',
    prices: [],
  }

  test('answers on the terminal', async () => {
    const text = await run(() => plan('bert-1', { ...flags, demand: '1000', fleet: '4x2' }))
    expect(text).toContain('7 replicas for a steady 1,000 req/s')
    expect(text).toContain('Current fleet: 4 x ')
    expect(text).toContain('violates the SLO from month 1')
    expect(text).toContain('sharing the GPU saves')
  })

  test('compares price books, months and shapes, as CSV, JSON, Markdown and HTML', async () => {
    const cheap = join(folder, 'spot.yaml')
    writeFileSync(cheap, 'name: spot\ngpus: { T4: 0.11 }\n')
    const dear = join(folder, 'list.yaml')
    writeFileSync(dear, 'name: list\ngpus: { T4: 0.35 }\n')
    const wanted = { ...flags, pattern: 'daily', peak: '900', growth: '5%', prices: [dear, cheap] }
    const json = JSON.parse(await run(() => plan(undefined, { ...wanted, json: true })))
    expect(json.units[0].months).toHaveLength(12)
    expect(json.units[0].byPriceList.map((p: { name: string }) => p.name)).toEqual(['list', 'spot'])
    expect(json.units[0]).toMatchObject({
      startupSeconds: 90,
      nodeSeconds: 240,
      replicasPerNode: 4,
    })
    for (const form of ['csv', 'md', 'html'])
      await run(() => plan(undefined, { ...wanted, out: join(folder, `plan.${form}`) }))
    expect(parseCsv(readFileSync(join(folder, 'plan.csv'), 'utf8'))).toHaveLength(1 + 2 * 12)
    expect(readFileSync(join(folder, 'plan.md'), 'utf8')).toContain('| month |')
    expect(readFileSync(join(folder, 'plan.html'), 'utf8')).toContain('<svg')
  })

  test('--spec writes the settings of the autoscaler that lose no minute, of what was measured for real', async () => {
    const real = join(folder, 'real.db')
    const flagsOfIt = {
      model: 'mine',
      slo: '50ms',
      devices: 'cpu',
      backend: 'local',
      db: real,
      command: 'tune predictor --port {port}',
    }
    const experiment = loadExperiment({
      flags: flagsOfIt,
      environment: {},
      cwd: folder,
      machine: { cpuCores: 4, gpus: [] },
    })
    const store = await openStore(real)
    const record = {
      id: 'mine-1',
      name: 'mine',
      createdAt: '2026-11-20T10:00:00.000Z',
      spec: experiment.document,
      provenance: 'measured',
      seed: 1,
    } as const
    await store.create(record)
    await store.append(
      'mine-1',
      complete(1, { cpuCores: 2 }, measured(100, 10), {
        purpose: 'default',
        usage: { launchSeconds: 40 },
      }),
    )
    await store.close()
    const out = join(folder, 'planned')
    const json = JSON.parse(
      (
        await run(() =>
          plan(undefined, {
            ...flags,
            db: real,
            pattern: 'daily',
            peak: '1500',
            spec: out,
            json: true,
          }),
        )
      ).replace(/^.*\.yaml\n/m, ''),
    )
    expect(json.units[0]).toMatchObject({
      startupSeconds: 40,
      nodeSeconds: 120,
      replicasPerNode: 1,
    })
    const { settings, outcome } = json.scaling.lossless
    expect(outcome.lostMinutes).toBe(0)
    const { objects, problems } = checkManifests(readFileSync(join(out, 'deployment.yaml'), 'utf8'))
    expect(problems).toEqual([])
    const { spec: hpa } = objects.find(
      ({ kind }) => kind === 'HorizontalPodAutoscaler',
    ) as unknown as { spec: Record<string, unknown> }
    expect(hpa).toMatchObject({
      minReplicas: settings.minReplicas,
      maxReplicas: settings.maxReplicas,
      behavior: settings.behaviour,
    })
    const quantity = (hpa as { metrics: { pods: { target: { averageValue: string } } }[] })
      .metrics[0]!.pods.target.averageValue
    expect(
      quantity.endsWith('m') ? Number.parseInt(quantity, 10) / 1000 : Number(quantity),
    ).toBeCloseTo(settings.targetRps, 0)
  })

  test('times are inputs: nodes that are always there take none, and cost none', async () => {
    const json = JSON.parse(
      await run(() =>
        plan('bert-1', { ...flags, demand: '500', startup: '45s', node: '0s', json: true }),
      ),
    )
    expect(json.units[0]).toMatchObject({ startupSeconds: 45, nodeSeconds: 0 })
  })

  test('--spec of an emulated GPU writes no autoscaler, and says so', async () => {
    const out = join(folder, 'emulated')
    const said = await run(() =>
      plan('bert-1', { ...flags, pattern: 'daily', peak: '1500', spec: out }),
    )
    expect(said).toContain('no autoscaler written')
    expect(readFileSync(join(out, 'deployment.yaml'), 'utf8')).not.toContain(
      'HorizontalPodAutoscaler',
    )
  })

  test('reads a trace', async () => {
    const trace = join(folder, 'trace.csv')
    writeFileSync(trace, 'timestamp,rate\n0,100\n3600,900\n7200,100\n')
    const text = await run(() => plan(undefined, { ...flags, trace }))
    expect(text).toContain(`the trace ${trace}`)
    expect(text).toMatch(/of 180 minutes \(.* in hour/)
  })

  test('refuses what cannot be planned', async () => {
    for (const bad of [
      {},
      { demand: '5', pattern: 'daily' },
      { pattern: 'daily' },
      { demand: 'lots' },
      { demand: '5', fleet: 'six' },
      { demand: '5', trials: '3' },
      { demand: '5', headroom: '100%' },
      { demand: '5', out: 'x.pdf' },
      { trace: '/none' },
      { demand: '5', spec: '/dev/null/x' },
    ]) {
      await expect(
        plan(undefined, { ...flags, ...bad }),
        JSON.stringify(bad),
      ).rejects.toMatchObject({ exitCode: 2 })
    }
  })
})

describe('tune report', () => {
  test('writes one file in the form of its ending', async () => {
    for (const form of ['html', 'md', 'csv', 'json']) {
      const out = join(folder, `report.${form}`)
      expect(await run(() => report('bert-1', { db, out }))).toBe(`${out}\n`)
      expect(readFileSync(out, 'utf8')).toContain(
        form === 'csv' ? 'safe_capacity_rps' : '2 cores, 1/4 T4',
      )
    }
    expect(readFileSync(join(folder, 'report.html'), 'utf8')).toContain('model:')
  })

  test('for a demand ranks by its price, and refuses forms it has not', async () => {
    const out = join(folder, 'demand.json')
    await run(() => report(undefined, { db, out, rps: '1000', headroom: '20%' }))
    expect(JSON.parse(readFileSync(out, 'utf8')).best).toMatchObject({ trial: 2, replicas: 7 })
    await expect(report(undefined, { db, out: 'x.pdf' })).rejects.toMatchObject({ exitCode: 2 })
  })
})
