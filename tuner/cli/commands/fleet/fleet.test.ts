import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { FleetPlan } from '../../../../reports/fleet/fleet-plan.ts'
import { checkManifests } from '../../../../reports/specs/validate.contract.ts'
import { defaultPriceBook } from '../../../../trials/prices/book.ts'
import { CliBox, type CliResult } from '../../../testing/run-cli.ts'
import { WarmCli } from '../../../testing/warm-cli.ts'
import { readFleetFile } from './fleet-file.ts'
import { renderFleetFiles } from './fleet-files.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'fleet-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

const fileOf = (text: string) => {
  const path = join(folder, 'fleet.yaml')
  writeFileSync(path, text)
  return readFleetFile(path, defaultPriceBook)
}

test('GPUs with their prices and ways to cut them, models with their demand', () => {
  writeFileSync(join(folder, 'day.csv'), '0,5\n3600,9\n7200,9\n')
  const { kinds, models, headroom } = fileOf(
    'gpus: {A100-80GB: {count: 3}, H100: {price: 2, mig: false}, T4: }\nheadroom: 10%\nmodels:\n  a: {table: a.csv, gpu: t4, slo: 50ms, demand: 12}\n  b: {experiment: b-1, demand: {trace: day.csv}}\n',
  )
  expect(
    kinds.map(({ name, pricePerHour, count, partitions }) => [
      name,
      pricePerHour,
      count,
      partitions.length > 1,
    ]),
  ).toEqual([
    ['A100-80GB', 2.44, 3, true],
    ['H100', 2, undefined, false],
    ['T4', 0.35, undefined, false],
  ])
  expect(headroom).toBeCloseTo(0.1, 12)
  expect(models[0]).toMatchObject({
    name: 'a',
    table: join(folder, 'a.csv'),
    gpu: 'T4',
    sloMs: 50,
    demand: { what: 'a steady 12 req/s' },
  })
  expect(models[1]!.demand.spans.map(({ rps }) => rps)).toEqual([5, 9, 9])
})

test('all problems are reported at once, with their lines', () => {
  const wrong = () =>
    fileOf(
      'gpus: {A100-80GB: {count: -1}}\nmodels:\n  a: {demand: 5}\n  b: {table: b.csv, demand: 0-8:5}\n  c: {table: c.csv, demand: 5, oops: 1}\n',
    )
  for (const message of [
    /fleet.yaml:1: gpus.A100-80GB.count/,
    /fleet.yaml:3: models.a: needs measurements/,
    /fleet.yaml:4: models.b.demand: hour 8 is missing .*got "0-8:5"/,
    /fleet.yaml:5: models.c: unknown key 'oops'/,
  ])
    expect(wrong).toThrow(message)
  expect(() =>
    fileOf("gpus: {T4: }\nmodels: {a: {table: a.csv, slo: 'p90 tpot<80ms', demand: 1}}\n"),
  ).toThrow(
    /models.a.slo: another SLO needs an experiment instead of the table \(a p99 of whole answers/,
  )
  expect(() =>
    fileOf('gpus: {T4: }\nmodels: {a: {table: a.csv, demand: 1, turns: byHour}}\n'),
  ).toThrow(/models.a: unknown key 'turns'/)
  expect(() => fileOf('gpus: {T5: {}}\nmodels: {a: {table: a.csv, demand: 1}}\n')).toThrow(
    /gpus: .*T5/,
  )
  expect(() => fileOf('gpus: {GB300: {}}\nmodels: {a: {table: a.csv, demand: 1}}\n')).toThrow()
  expect(() => fileOf('gpus: {T4: {}}\nmodels: {}\n')).toThrow('has no models')
})

test('no capacity left, a price of nothing and names of several lines are refused', () => {
  const file =
    (more: string, gpu = 'T4: ', name = 'a') =>
    () =>
      fileOf(`gpus: {${gpu}}\n${more}\nmodels: {${name}: {table: a.csv, demand: 5}}\n`)
  expect(file('headroom: 100%')).toThrow(/a headroom of 100 % leaves no capacity/)
  expect(file('', 'T4: {price: 1e-9}')).toThrow(
    /T4 at 1e-9 per hour is below the precision of the solver/,
  )
  for (const name of ['""', '" "', '"a\\nkind: Secret"'])
    expect(file('', 'T4: ', name), name).toThrow(/the name of a model must be one line of text/)
})

test('a kind of GPU by two of its names is refused', () => {
  expect(() =>
    fileOf(
      'gpus: {A100-80GB: {count: 1}, a100 80gb: {price: 1}}\nmodels: {a: {table: a.csv, demand: 5}}\n',
    ),
  ).toThrow(/gpus: a100 80gb is A100-80GB, which already appears above/)
})

test('deployments of long names that begin alike do not take each other’s file', async () => {
  const name = (language: string) => `customer-support-intent-classifier-multilingual-${language}`
  const file = fileOf(
    `gpus: {L4: }\nmodels:\n${['en', 'de'].map((language) => `  ${name(language)}: {table: a.csv, demand: 5, slo: 1s, image: "${language}:1"}\n`).join('')}`,
  )
  const slots = ['en', 'de'].map((language) => ({
    slice: 'whole',
    model: name(language),
    segment: { gpu: 'L4', slice: 'whole', gpus: 1, rateRps: 9, label: '' },
  }))
  const plan = {
    atPeaks: {
      gpus: slots.map((slot) => ({ kind: 'L4', slots: [slot] })),
      pricePerHour: 2,
      boundPerHour: 2,
    },
    hoursRps: [Array<number>(24).fill(5), Array<number>(24).fill(5)],
  } as unknown as FleetPlan
  const { files } = await renderFleetFiles(
    plan,
    file,
    file.models.map((entry) => ({ entry, source: { segments: [] } })),
    'kubernetes',
  )
  expect(new Set(files.map(({ path }) => path)).size).toBe(2)
  expect(files.map(({ text }) => /image: (\w\w):1/.exec(text)?.[1])).toEqual(['en', 'de'])
  const names = files.flatMap(({ text }) =>
    checkManifests(text)
      .objects.filter(({ kind }) => kind === 'Deployment')
      .map(({ metadata }) => (metadata as { name: string }).name),
  )
  expect(new Set(names).size).toBe(2)
})

test('keys of deployment: GPUs of a node, time zone, and no secret that a manifest would repeat', () => {
  const { perNode, timezone, models } = fileOf(
    'gpus: {A100-80GB: {perNode: 8}, L4: }\nmodels: {a: {table: a.csv, demand: 5, image: "x:1", port: 9000, health: /h}}\ntimezone: Asia/Kolkata\n',
  )
  expect([perNode('A100-80GB'), perNode('L4'), timezone]).toEqual([8, 1, 'Asia/Kolkata'])
  expect(models[0]).toMatchObject({ image: 'x:1', port: 9000, health: '/h' })
  expect(() =>
    fileOf('gpus: {L4: }\nmodels: {a: {table: a.csv, demand: 5}}\ntimezone: Mars\n'),
  ).toThrow(/not a time zone/)
  expect(() =>
    fileOf(
      'gpus: {L4: }\nmodels: {a: {table: a.csv, demand: 5, modelUri: "https://u:hunter22@host/m"}}\n',
    ),
  ).toThrow(/contains a secret/)
})

test('the files of a folder are valid; what is not written, or was there before, is named', async () => {
  const box = new CliBox()
  const tune = new WarmCli()
  try {
    for (const name of ['fleet.yaml', 'resnet50.csv', 'vgg19.csv'])
      writeFileSync(join(box.folder, name), readFileSync(join('docs', 'files', name)))
    mkdirSync(join(box.folder, 'out', 'models'), { recursive: true })
    writeFileSync(join(box.folder, 'out', 'models', 'old.yaml'), 'kind: Old\n')
    const { code, stdout, stderr }: CliResult = await tune.run(box, [
      'fleet',
      '-f',
      'fleet.yaml',
      '--out',
      'out',
    ])
    expect({ code, stderr }).toMatchObject({ code: 0 })
    expect(stdout).toContain('proven: no cheaper packing exists')
    expect(stderr).toContain('not written: vgg19-a100-80gb')
    expect(stderr).toContain(
      'out/models/old.yaml is left from an earlier run and is not part of this fleet',
    )
    const written = [
      join('nodes', 'mig-layouts.yaml'),
      ...readdirSync(join(box.folder, 'out', 'models'))
        .filter((f) => f !== 'old.yaml')
        .map((f) => join('models', f)),
    ]
    expect(written.length).toBeGreaterThan(2)
    for (const path of written)
      expect(
        checkManifests(readFileSync(join(box.folder, 'out', path), 'utf8')).problems,
        path,
      ).toEqual([])
    const document = await tune.run(box, ['fleet', '-f', 'fleet.yaml', '--out', 'fleet.md'])
    expect(document).toMatchObject({ code: 0, stdout: 'fleet.md\n', stderr: '' })
    expect(
      (await tune.run(box, ['fleet', '-f', 'fleet.yaml', '--target', 'kserve'])).stderr,
    ).toContain('add a folder')
  } finally {
    tune.end()
    box.dispose()
  }
})

test('a replica with more GPUs than a node has is not written, with a hint', async () => {
  const file = fileOf(
    'gpus: {A100-80GB: {perNode: 2}}\nmodels: {a: {table: a.csv, demand: 5, slo: 1s, image: "x:1"}}\n',
  )
  const segment = (gpus: number) => ({
    gpu: 'A100-80GB',
    slice: 'whole',
    gpus,
    rateRps: 9,
    label: '',
  })
  const gpus = [4, 4, 4, 4, 2, 2].map((count) => ({
    kind: 'A100-80GB',
    slots: [{ slice: 'whole', model: 'a', segment: segment(count) }],
  }))
  const plan = {
    atPeaks: { gpus, pricePerHour: 1, boundPerHour: 1 },
    hoursRps: [Array<number>(24).fill(5)],
  } as unknown as FleetPlan
  const { files, skipped } = await renderFleetFiles(
    plan,
    file,
    [{ entry: file.models[0]!, source: { segments: [] } }],
    'kubernetes',
  )
  expect(files.map(({ path }) => path)).toEqual([join('models', 'a-2x-a100-80gb.yaml')])
  expect(files[0]!.text).toContain('nvidia.com/gpu: "2"')
  expect(skipped).toEqual([
    'a-4x-a100-80gb: a replica needs 4 GPUs, but a node has 2 (set the GPUs per node: gpus: {A100-80GB: {perNode: 4}})',
  ])
})
