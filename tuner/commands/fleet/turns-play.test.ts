/**
 * Models in turns as planned, played: servers of the built-in predictor on an emulated GPU in
 * virtual time, seen by a client that shares no code with the tuner.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Target } from '../../../profiler/types.ts'
import { simulatedBackend } from '../../backends/simulated-backend.ts'
import { CliBox } from '../../testing/run-cli.ts'
import { WarmCli } from '../../testing/warm-cli.ts'
import { type Reopened, reopen } from '../reopened.ts'
import { arrivalsOf, randomOf, summaryOf } from './testing/plain-client.ts'

const box = new CliBox()
const tune = new WarmCli()
const experiments = new Map<string, Reopened>()
const path = (name: string) => join(box.folder, name)
const [gpu, pricePerHour, loadS] = ['T4', 0.35, 240]
const slos = { 'bert-large': 2000, 'roberta-base': 800 } as const
type Name = keyof typeof slos
const names = Object.keys(slos) as Name[]

const run = async (args: readonly string[]) => {
  const { code, stdout, stderr } = await tune.run(box, args)
  if (code !== 0) throw new Error(`tune ${args.join(' ')} ended with ${code}: ${stderr}`)
  return stdout
}

beforeAll(async () => {
  for (const name of names) {
    const space = {
      cpuCores: [1],
      memoryMiB: [1024],
      gpu: [gpu],
      batchSize: [1, 4],
      precision: ['fp32'],
      sequenceLength: [512],
    }
    const experiment = {
      model: name,
      slo: `p99<${slos[name]}ms`,
      backend: 'simulated',
      devices: 'emulated',
      space,
      sampler: 'grid',
      confirm: false,
    }
    writeFileSync(path(`${name}.yaml`), JSON.stringify({ ...experiment, budget: { maxTrials: 2 } }))
    await run(['-f', path(`${name}.yaml`), '--plain', '--db', path('fleet.db')])
    experiments.set(name, await reopen(undefined, { db: path('fleet.db') }))
  }
}, 60_000)
afterAll(async () => {
  tune.end()
  await box.end()
})

interface Turn {
  readonly model: Name
  readonly configuration: string
  readonly from: string
  readonly to: string
}
interface Said {
  readonly pricePerHour: number
  readonly compared: { readonly unturned?: { readonly pricePerHour: number } }
  readonly gpus: readonly {
    readonly slices: readonly {
      readonly inTurns?: readonly Turn[]
      readonly onDemand?: readonly {
        readonly model: Name
        readonly configuration: string
        readonly waits: { readonly waiting: number; readonly loadsPerDay: number }
      }[]
    }[]
  }[]
}

async function planned(turns: string, extra: string): Promise<Said> {
  const entries = names.map(
    (name) =>
      `  ${name}: {experiment: ${experiments.get(name)!.record.id}, demand: {trace: ${name}.csv}, ${extra}}`,
  )
  writeFileSync(
    path('fleet.yaml'),
    `gpus: {${gpu}: {mig: false, price: ${pricePerHour}}}\nheadroom: 15%\nturns: ${turns}\nmodels:\n${entries.join('\n')}\n`,
  )
  return JSON.parse(
    await run([
      'fleet',
      '-f',
      path('fleet.yaml'),
      '--json',
      '--db',
      path('fleet.db'),
      '--solver-time',
      '4s',
    ]),
  ) as Said
}

async function serverOf(model: Name, words: string) {
  const { trials, label, experiment } = experiments.get(model)!
  const { configuration } = trials.find((trial) => label(trial.configuration) === words)!
  const { target }: { readonly target: Target } = await simulatedBackend(
    experiment,
  ).launcher.launch(configuration, 1, new AbortController().signal)
  if (target.kind !== 'virtual') throw new TypeError('not a predictor in virtual time')
  return target.server
}

/** What each of these requests takes that come at these times, ms. */
function answered(
  server: Awaited<ReturnType<typeof serverOf>>,
  atMs: readonly number[],
  durationS: number,
): ArrayLike<number> {
  return server.play({
    kind: 'open',
    rateRps: atMs.length / durationS,
    arrivals: { kind: 'trace', atMs },
    durationS,
    seed: 5,
  }).latencyMs
}

const secondOf = (clock: string): number => {
  const [hours, minutes] = clock.split(':').map(Number)
  return hours! * 3600 + minutes! * 60
}

test('one GPU for a model of the day and one of the night: as planned by hours every SLO is kept; begun a quarter later requests find nobody', async () => {
  const rates: Record<Name, (hour: number) => number> = {
    'bert-large': (hour) => (hour >= 8 && hour < 20 ? 4 : 0),
    'roberta-base': (hour) => (hour >= 20.5 || hour < 7.5 ? 9 : 0),
  }
  for (const name of names)
    writeFileSync(
      path(`${name}.csv`),
      Array.from({ length: 96 }, (_, i) => `${i * 900},${rates[name](i / 4)}\n`).join(''),
    )
  const said = await planned('byHour', `load: ${loadS}s`)
  expect(said.pricePerHour).toBeCloseTo(pricePerHour, 9)
  expect(said.compared.unturned!.pricePerHour).toBeCloseTo(2 * pricePerHour, 9)
  const turns = said.gpus.flatMap(({ slices }) => slices.flatMap(({ inTurns = [] }) => inTurns))
  const day = { speed: 60, hours: 24 }
  const played = async (name: Name, laterS: number) => {
    const turn = turns.find(({ model }) => model === name)!
    const [from, to] = [secondOf(turn.from) + loadS + laterS, secondOf(turn.to)]
    const serves = (second: number) =>
      from < to ? second >= from && second < to : second >= from || second < to
    const came = arrivalsOf(readFileSync(path(`${name}.csv`), 'utf8'), day, randomOf(3))
    const met = came.filter(({ traceS }) => serves(traceS))
    const ms = answered(
      await serverOf(name, turn.configuration),
      met.map(({ atMs }) => atMs),
      (day.hours * 3600) / day.speed,
    )
    const missed = came
      .filter(({ traceS }) => !serves(traceS))
      .map(({ traceS }) => ({ ms: undefined, traceS }))
    return summaryOf([...met.map(({ traceS }, i) => ({ ms: ms[i]!, traceS })), ...missed], {
      sloMs: slos[name],
      percentile: 0.99,
    })
  }
  // The GPU has one of them at a time, and each begins to load once the other has left.
  expect(turns.map(({ model, from, to }) => [model, from, to])).toEqual([
    ['bert-large', '7:45', '20:00'],
    ['roberta-base', '20:15', '7:30'],
  ])
  for (const name of names) {
    const saw = await played(name, 0)
    expect(saw, name).toMatchObject({ kept: true, failed: 0 })
    expect(saw.requests).toBeGreaterThan(2000)
    expect((await played(name, 900)).failed, name).toBeGreaterThan(0)
  }
}, 120_000)

test('one GPU on demand for batches of a few requests: who waits, and how often models are loaded, is as played by others', async () => {
  // A batch in a minute of each hour, the other's five minutes later.
  for (const [i, name] of names.entries()) {
    const rows = Array.from({ length: 24 }, (_, hour) => hour * 3600 + 300 * i).map(
      (second) => `${second},0.5\n${second + 60},0\n`,
    )
    writeFileSync(path(`${name}.csv`), `${i > 0 ? '0,0\n' : ''}${rows.join('')}86400,0\n`)
  }
  const said = await planned('onDemand', 'load: 20s, wake: 400ms')
  const [group] = said.gpus.flatMap(({ slices }) =>
    slices.flatMap(({ onDemand }) => (onDemand ? [onDemand] : [])),
  )
  expect(said.pricePerHour).toBeCloseTo(pricePerHour, 9)
  expect(group!.map(({ model }) => model)).toEqual(names)
  const day = { speed: 1, hours: 24 }
  const random = randomOf(9)
  const came = names
    .flatMap((model) =>
      arrivalsOf(readFileSync(path(`${model}.csv`), 'utf8'), day, random).map(({ atMs }) => ({
        model,
        atMs,
      })),
    )
    .sort((a, b) => a.atMs - b.atMs)
  const servers = new Map(
    await Promise.all(
      group!.map(
        async ({ model, configuration }) => [model, await serverOf(model, configuration)] as const,
      ),
    ),
  )
  const answers: { readonly model: Name; readonly ms: number; readonly waited: boolean }[] = []
  let [freeMs, loads] = [0, 0]
  for (let i = 0; i < came.length; ) {
    let until = i
    while (came[until]?.model === came[i]!.model) until++
    const turn = came.slice(i, until)
    // Loaded once all before are answered.
    const readyMs = Math.max(turn[0]!.atMs, freeMs) + 400
    const admitted = turn.map(({ atMs }) => Math.max(atMs, readyMs) - readyMs)
    const ms = answered(
      servers.get(turn[0]!.model)!,
      admitted,
      Math.max(1, admitted.at(-1)! / 1000 + 1),
    )
    for (const [k, { model, atMs }] of turn.entries()) {
      const answeredMs = readyMs + admitted[k]! + ms[k]!
      answers.push({ model, ms: answeredMs - atMs, waited: atMs < readyMs })
      freeMs = Math.max(freeMs, answeredMs)
    }
    loads++
    i = until
  }
  for (const { model, waits } of group!) {
    const own = answers.filter((answer) => answer.model === model)
    expect(
      summaryOf(
        own.map(({ ms }) => ({ ms, traceS: 0 })),
        { sloMs: slos[model], percentile: 0.99 },
      ),
      model,
    ).toMatchObject({ kept: true, failed: 0 })
    expect(
      Math.abs(own.filter(({ waited }) => waited).length / own.length - waits.waiting),
    ).toBeLessThan(0.03)
  }
  expect(
    Math.abs(loads / group!.reduce((sum, { waits }) => sum + waits.loadsPerDay, 0) - 1),
  ).toBeLessThan(0.1)
}, 120_000)
