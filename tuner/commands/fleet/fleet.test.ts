import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import type { FleetPlan } from '../../../reports/fleet/fleet-plan.ts'
import { noRules } from '../../../reports/fleet/rules.ts'
import { checkManifests } from '../../../reports/specs/validate.contract.ts'
import { defaultPriceBook } from '../../../trials/prices/book.ts'
import { CliBox, type CliResult } from '../../testing/run-cli.ts'
import { readFleetFile } from './fleet-file.ts'
import { fleetFiles } from './fleet-files.ts'
import { turningOf } from './model-source.ts'

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

test('all that is wrong is told at once, with its line', () => {
  const wrong = () =>
    fileOf(
      'gpus: {A100-80GB: {count: -1}}\nmodels:\n  a: {demand: 5}\n  b: {table: b.csv, demand: 0-8:5}\n  c: {table: c.csv, demand: 5, oops: 1}\n',
    )
  for (const message of [
    /fleet.yaml:1: gpus.A100-80GB.count/,
    /fleet.yaml:3: models.a: needs what was measured of it/,
    /fleet.yaml:4: models.b.demand: hour 8 is not given .*got "0-8:5"/,
    /fleet.yaml:5: models.c: unknown key 'oops'/,
  ])
    expect(wrong).toThrow(message)
  expect(() =>
    fileOf(
      'gpus: {T4: }\nmodels:\n  a: {table: a.csv, demand: 1, builtin: bertt}\n  b: {table: a.csv, demand: 1, builtin: llama-3.1-8b}\n',
    ),
  ).toThrow(
    /fleet.yaml:3: models.a.builtin: .*'bertt'.*bert(.|\n)*fleet.yaml:4: models.b.builtin: llama-3.1-8b generates text/,
  )
  expect(() =>
    fileOf(
      'gpus: {T4: }\nmodels: {a: {table: a.csv, demand: 1, builtin: bert, server: bert.yaml}}\n',
    ),
  ).toThrow(/models.a.server: starts it as it is, and builtin: another in its place/)
  expect(() => fileOf('gpus: {T5: {}}\nmodels: {a: {table: a.csv, demand: 1}}\n')).toThrow(
    /gpus: .*T5/,
  )
  expect(() => fileOf('gpus: {GB300: {}}\nmodels: {a: {table: a.csv, demand: 1}}\n')).toThrow()
  expect(() => fileOf('gpus: {T4: {}}\nmodels: {}\n')).toThrow('has no models')
})

test('what would leave nothing to weigh or to serve with is refused, and names that are no line', () => {
  const file =
    (more: string, gpu = 'T4: ', name = 'a') =>
    () =>
      fileOf(`gpus: {${gpu}}\n${more}\nmodels: {${name}: {table: a.csv, demand: 5}}\n`)
  expect(file('headroom: 100%')).toThrow(/headroom: all of a replica kept free/)
  expect(file('', 'T4: {price: 1e-9}')).toThrow(
    /T4 at 1e-9 an hour is less than money can be told apart by/,
  )
  for (const name of ['""', '" "', '"a\\nkind: Secret"'])
    expect(file('', 'T4: ', name), name).toThrow(/the name of a model is one line of text/)
})

test('a kind of GPU by two of its names is one kind too many', () => {
  expect(() =>
    fileOf(
      'gpus: {A100-80GB: {count: 1}, a100 80gb: {price: 1}}\nmodels: {a: {table: a.csv, demand: 5}}\n',
    ),
  ).toThrow(/gpus: a100 80gb is A100-80GB, which is there already/)
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
    rules: noRules,
  } as unknown as FleetPlan
  const { files } = await fleetFiles(
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

test('keys of deployment: GPUs of a node, the zone of the hours, and no secret that would stand in a manifest', () => {
  const { perNode, timezone, models } = fileOf(
    'gpus: {A100-80GB: {perNode: 8}, L4: }\nmodels: {a: {table: a.csv, demand: 5, image: "x:1", port: 9000, health: /h}}\ntimezone: Asia/Kolkata\n',
  )
  expect([perNode('A100-80GB'), perNode('L4'), timezone]).toEqual([8, 1, 'Asia/Kolkata'])
  expect(models[0]).toMatchObject({ image: 'x:1', port: 9000, health: '/h' })
  expect(() =>
    fileOf('gpus: {L4: }\nmodels: {a: {table: a.csv, demand: 5}}\ntimezone: Mars\n'),
  ).toThrow(/no time zone/)
  expect(() =>
    fileOf(
      'gpus: {L4: }\nmodels: {a: {table: a.csv, demand: 5, modelUri: "https://u:hunter22@host/m"}}\n',
    ),
  ).toThrow(/holds a secret/)
})

test('one GPU to lose, for all or some, and models apart, which must be there', () => {
  const rulesOf = (more: string, ofA = '') =>
    fileOf(
      `gpus: {L4: }\nmodels:\n  a: {table: a.csv, demand: 5${ofA}}\n  b: {table: b.csv, demand: 5}\n${more}\n`,
    ).rules
  expect(rulesOf('')).toMatchObject({ spared: new Set(), apart: [] })
  expect(rulesOf('spare: 1\napart: [[a, b]]')).toMatchObject({
    spared: new Set(['a', 'b']),
    apart: [['a', 'b']],
  })
  expect(rulesOf('spare: 1', ', spare: 0')).toMatchObject({ spared: new Set(['b']), apart: [] })
  expect(rulesOf('', ', spare: 1')).toMatchObject({ spared: new Set(['a']), apart: [] })
  expect(() => rulesOf('apart: [[a, c], [b, b]]')).toThrow(
    /apart.0.1: no model is called 'c'(.|\n)*'b' is named twice/,
  )
  expect(() => rulesOf('spare: 2')).toThrow(/spare/)
})

test('the files that it hands over are valid; what is not written, or was there before, is named', async () => {
  const box = new CliBox()
  try {
    for (const name of ['fleet.yaml', 'resnet50.csv', 'vgg19.csv'])
      writeFileSync(join(box.folder, name), readFileSync(join('docs', 'files', name)))
    mkdirSync(join(box.folder, 'out', 'models'), { recursive: true })
    writeFileSync(join(box.folder, 'out', 'models', 'old.yaml'), 'kind: Old\n')
    const { code, stdout, stderr }: CliResult = await box.run([
      'fleet',
      '-f',
      'fleet.yaml',
      '--out',
      'out',
    ])
    expect({ code, stderr }).toMatchObject({ code: 0 })
    expect(stdout).toContain('no packing of these costs less')
    expect(stderr).toContain('not written: vgg19-a100-80gb')
    expect(stderr).toContain('out/models/old.yaml is not of this fleet')
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
    const document = await box.run(['fleet', '-f', 'fleet.yaml', '--out', 'fleet.md'])
    expect(document).toMatchObject({ code: 0, stdout: 'fleet.md\n', stderr: '' })
    expect((await box.run(['fleet', '-f', 'fleet.yaml', '--target', 'kserve'])).stderr).toContain(
      'name a folder',
    )
  } finally {
    box.dispose()
  }
})

describe('models in turns', () => {
  const entries = (more: string, ofA = '') =>
    fileOf(
      `gpus: {L4: }\nmodels:\n  a: {table: a.csv, slo: 2s, demand: 5${ofA}}\n  b: {table: b.csv, demand: 5, turns: never}\n${more}\n`,
    ).models
  const segment = { gpu: 'L4', slice: 'whole', gpus: 1, rateRps: 9, label: '' }
  const turning = (more: string, ofA = '', of = {}) =>
    turningOf(entries(more, ofA)[0]!, { segments: [segment, { ...segment, ...of }] })

  test('load as long as the user says, else as the slowest that is known; all or one of them, by the hours or as requests come', () => {
    expect(turning('', '', { loadS: 30 })).toBeUndefined()
    const sized = (turns: string) =>
      fileOf(
        `gpus: {L4: }\nturns: ${turns}\nmodels:\n  a: {llm: {model: llama-3.1-8b, inputTokens: 90, outputTokens: 20}, slo: p90 tpot<80ms, demand: 5}\n`,
      ).models[0]!
    const assumed = { loadS: 378, loadFrom: 'assumed, from its weights' }
    for (const turns of ['byHour', 'onDemand'])
      expect(turningOf(sized(turns), { segments: [{ ...segment, loadS: 378 }] })).toEqual(assumed)
    const classes = fileOf(
      'gpus: {L4: }\nturns: byHour\nmodels:\n  a: {classes: {x: {share: 50%, table: a.csv}, y: {share: 50%, table: b.csv}}, demand: 5}\n',
    ).models[0]!
    const byClass = new Map(
      [30, 70].map((loadS) => [`${loadS}`, { segments: [{ ...segment, loadS }] }]),
    )
    expect(turningOf(classes, { segments: [{ ...segment, loadS: 30 }], byClass })).toEqual({
      loadS: 70,
      loadFrom: 'of its table',
    })
    expect(turning('turns: byHour', '', { loadS: 30 })).toEqual({
      loadS: 30,
      loadFrom: 'of its table',
    })
    expect(turning('', ', turns: byHour, load: 1m30s', { loadS: 30 })).toEqual({
      loadS: 90,
      loadFrom: 'as given',
    })
    expect(turning('turns: byHour\nendsEarly: 15m', '', { loadS: 30 })).toMatchObject({
      endsEarlyS: 900,
    })
    expect(
      turning('turns: byHour\nendsEarly: 15m', ', endsEarly: 5m', { loadS: 30 }),
    ).toMatchObject({ endsEarlyS: 300 })
    expect(turning('turns: onDemand', ', load: 90s, wake: 1500ms', { limitMs: 2000 })).toEqual({
      ...{ loadS: 90, loadFrom: 'as given' },
      onDemand: { percentile: 0.99, wakeS: 1.5 },
    })
    expect(entries('turns: byHour')[1]).not.toHaveProperty('turns')
    const measured = fileOf(
      'gpus: {L4: }\nturns: byHour\nmodels: {a: {experiment: a-1, demand: 5}}\n',
    ).models[0]!
    expect(
      turningOf(measured, {
        segments: [
          { ...segment, loadS: 20 },
          { ...segment, loadS: 50 },
        ],
      }),
    ).toEqual({ loadS: 50, loadFrom: 'measured' })
  })

  test('are refused where nobody knows how long a load takes, what requests may wait, or they are told apart', () => {
    expect(() => turning('turns: byHour')).toThrow(
      'how long a takes until it serves was not measured',
    )
    expect(() => turning('turns: onDemand', '', { loadS: 3 })).toThrow(
      'what requests of a may wait for a load is not known',
    )
    expect(() => entries('turns: often')).toThrow(/turns/)
    expect(() => entries('', ', load: 0s')).toThrow(/models.a.load/)
    expect(() =>
      fileOf(
        'gpus: {L4: }\nmodels:\n  a: {llm: {model: llama-3.1-8b}, slo: p90 tpot<80ms, demand: 5, turns: onDemand}\n',
      ),
    ).toThrow(/models.a.turns: models whose requests are told apart take turns by the hours/)
  })

  test('are written with KEDA by the hours and a proxy as requests come, for Kubernetes, and for nothing that keeps replicas at all hours', async () => {
    const file = fileOf(
      `gpus: {L4: }\nmodels:\n${['a', 'b', 'c', 'd'].map((name, i) => `  ${name}: {table: ${name}.csv, demand: 5, slo: 1s, image: "x:${i + 1}"}\n`).join('')}`,
    )
    const stays = [
      { model: 'a', segment, from: 31, to: 80 },
      { model: 'b', segment, from: 81, to: 126 },
    ]
    const group = {
      slice: 'whole',
      waiting: ['c', 'd'].map((model) => ({ model, segment, waits: { longestS: 40 } })),
    }
    const plan = {
      atPeaks: {
        gpus: [
          { kind: 'L4', slots: [{ slice: 'whole', stays }] },
          { kind: 'L4', slots: [group] },
        ],
        pricePerHour: 2,
        boundPerHour: 2,
      },
      hoursRps: file.models.map(() => Array<number>(24).fill(5)),
      peaksRps: file.models.map(() => 5),
      rules: noRules,
      turning: file.models.map(({ name }, i) => ({
        name,
        turning: { loadS: 20 + i, loadFrom: 'as given', onDemand: { percentile: 0.99 } },
      })),
    } as unknown as FleetPlan
    const of = (target: 'kubernetes' | 'kserve', slot: object = group) =>
      fleetFiles(
        {
          ...plan,
          atPeaks: {
            ...plan.atPeaks,
            gpus: [plan.atPeaks.gpus[0]!, { kind: 'L4', slots: [slot] }],
          },
        } as FleetPlan,
        file,
        file.models.map((entry) => ({ entry, source: { segments: [] } })),
        target,
      )
    const { files, leftOut } = await of('kubernetes')
    expect(files.map(({ path }) => path)).toEqual([
      ...['a', 'b', 'c', 'd'].map((name) => join('models', `${name}-l4.yaml`)),
      join('turns', 'turns-1-l4.yaml'),
    ])
    const objects = files.map(({ text }) => {
      const { objects: found, problems } = checkManifests(text)
      expect(problems).toEqual([])
      return found as {
        kind: string
        spec: { triggers: { metadata: object }[]; replicas?: number }
      }[]
    })
    const specOf = (i: number, kind: string) =>
      objects[i]!.find((object) => object.kind === kind)!.spec
    const scaled = [0, 1].map((i) =>
      specOf(i, 'ScaledObject').triggers.map(({ metadata }) => metadata),
    )
    // Nobody ends by a timer of its own what a proxy puts away.
    for (const i of [2, 3]) {
      expect(specOf(i, 'Deployment').replicas).toBe(0)
      expect(files[i]!.text).not.toContain('preStop')
      expect(files[i]!.text).toContain('turns-1-l4 brings it up when its requests come')
      expect(files[i]!.text).toContain(`verify --url http://turns-1-l4/upstream/${'abcd'[i]}-l4 `)
    }
    expect(scaled).toMatchObject([
      [{ start: '45 7 * * *', end: '0 20 * * *', desiredReplicas: '1' }],
      [{ start: '15 20 * * *', end: '30 7 * * *' }],
    ])
    expect(leftOut).toEqual([])
    expect(files[4]!.text).toContain('The plan played a load of 22 s (c), 23 s (d)')
    expect(files[4]!.text).toContain('concurrencyLimit: 400')
    expect((await of('kserve')).leftOut).toEqual([
      expect.stringContaining('a-l4: it takes turns'),
      expect.stringContaining('b-l4'),
      expect.stringMatching(/^c, d in turns on a L4: .*use --target kubernetes/),
    ])
    const waiting = ['b', 'c', 'd'].map((model) => ({ model, segment, waits: { longestS: 40 } }))
    const claimed = async (slot: object) => {
      const written = await of('kubernetes', slot)
      expect(written.leftOut).toEqual([])
      const { objects: found, problems } = checkManifests(
        written.files.map(({ text }) => text).join('---\n'),
      )
      expect(problems).toEqual([])
      const sharing = found
        .filter(({ kind }) => kind === 'Deployment')
        .filter((one) => JSON.stringify(one).includes('"resourceClaimName":"turns-1-l4"'))
      expect(found.filter(({ kind }) => String(kind).startsWith('ResourceClaim'))).toMatchObject([
        {
          kind: 'ResourceClaim',
          metadata: { name: 'turns-1-l4' },
          spec: {
            devices: { requests: [{ exactly: { deviceClassName: 'gpu.nvidia.com', count: 1 } }] },
          },
        },
      ])
      for (const one of sharing)
        expect(JSON.stringify(one)).toContain('"limits":{},"claims":[{"name":"tuned-gpu"}]')
      return { found, replicas: sharing.map(({ spec }) => (spec as { replicas: number }).replicas) }
    }
    // Two of three: whoever is not there is brought up, and the least worth leaves.
    const together = { most: 2, sets: [['b', 'c'], ['d']], leaving: ['d', 'b', 'c'] }
    const some = await claimed({ slice: 'whole', waiting, together })
    expect(some.replicas).toEqual([0, 0, 0])
    const { data } = some.found.find(({ kind }) => kind === 'ConfigMap') as unknown as {
      data: Record<string, string>
    }
    expect(parse(data['config.yaml']!).routing).toEqual({
      router: {
        use: 'matrix',
        settings: {
          matrix: {
            vars: { m1: 'b-l4-2', m2: 'c-l4', m3: 'd-l4' },
            evict_costs: { m3: 1, m1: 1000, m2: 1_000_000 },
            sets: { fit1: 'm1 & m2', fit2: 'm3' },
          },
        },
      },
    })
    // All of them: nobody leaves, and nobody has to hold requests.
    const all = await claimed({
      ...group,
      together: { most: 2, sets: [['c', 'd']], leaving: ['c', 'd'] },
    })
    expect(all.replicas).toEqual([1, 1])
    expect(all.found.map(({ kind }) => kind)).not.toContain('ConfigMap')
  })
})

test('a replica that no node has GPUs for is not written, and says what would help', async () => {
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
    rules: noRules,
  } as unknown as FleetPlan
  const { files, leftOut } = await fleetFiles(
    plan,
    file,
    [{ entry: file.models[0]!, source: { segments: [] } }],
    'kubernetes',
  )
  expect(files.map(({ path }) => path)).toEqual([join('models', 'a-2x-a100-80gb.yaml')])
  expect(files[0]!.text).toContain('nvidia.com/gpu: "2"')
  expect(leftOut).toEqual([
    'a-4x-a100-80gb: a replica stands on 4 GPUs, and a node has 2 (say how many it has: gpus: {A100-80GB: {perNode: 4}})',
  ])
})
