/**
 * The README's command over several seeds, whole, and where its seconds go: `npm run bench:main-job
 * -- [seeds] [--from N] [--foreign S] [--real N] [--rounds N] [flags of tune]`, one to two minutes
 * a seed; default flags `--model bert --slo 50ms`. Best on a machine that does nothing else. For
 * each seed: how fast a core is as it begins beside the one that CPU costs are known of, seconds,
 * trials, what is recommended, its status, whether the rate first asked of it held, and what a
 * plain client in C finds in S seconds (default 30, 0: it is left out) at the rate that was held
 * (where there is a C compiler). Then what the seeds come to, how right the terminal's ETA was, and
 * how far the recommended ones are from the cheapest of the emulated space: all of it by the device
 * model, then the N best (default 5, 0: none) and the recommended ones under real load, one to two
 * minutes each in each of as many rounds (default 3): the highest rate at which the plain client
 * finds the SLO kept, or what a long trial reads where there is no compiler. Readings of one
 * configuration are a few percent apart, so that it counts with their median, and how sure that is
 * stands beside it. `npm run bench:main-job -- foreign` is about a server of others instead
 * (foreign-job/foreign-job.ts).
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { median } from 'simple-statistics'
import { compilePlainClient } from '../../profiler/bench/plain-client.ts'
import { quantile } from '../../search/bench/score.ts'
import { configurationKey } from '../../search/space/space.ts'
import type { Configuration } from '../../search/types.ts'
import { measureCoreSpeed } from '../../trials/machine/core-speed.ts'
import { formatTable } from '../cli/render/columns.ts'
import type { Experiment } from '../config/types.ts'
import { type Cost, costAt, experimentIn, measuredCost } from './emulated-truth.ts'
import { runForeignJobs } from './foreign-job/foreign-job.ts'
import { isNearCheapest, type MainJobRun, modelledSpace, runMainJob, WITHIN } from './main-job.ts'
import { plainlyHeldRps, underPlainLoad } from './plain-load.ts'
import { regretOf, sureWithin } from './rounds.ts'

const [, , seedsAsked = '10', ...rest] = process.argv
if (seedsAsked === 'foreign') {
  await runForeignJobs(rest)
  process.exit()
}
/** The number after a flag of this bench, which is taken off those of `tune`. */
function own(name: string, fallback: number, of: string[]): number {
  const at = of.indexOf(name)
  return at < 0 ? fallback : Number.parseFloat(of.splice(at, 2)[1] ?? '')
}
const given = [...rest]
const foreignS = own('--foreign', 30, given)
const realBest = own('--real', 5, given)
const realRounds = own('--rounds', 3, given)
const firstSeed = own('--from', 1, given)
if (!(foreignS >= 0 && realBest >= 0 && realRounds >= 1 && firstSeed >= 0))
  throw new Error(
    '--foreign takes seconds, --real a number of configurations, --rounds how often each is measured, --from a seed',
  )
const flags = given.length > 0 ? given : ['--model', 'bert', '--slo', '50ms']
const folder = mkdtempSync(join(tmpdir(), 'main-job-'))

const plainClient = compilePlainClient(folder)

/**
 * Percentile of the SLO that the plain client finds at the confirmed rate, ms, on a predictor
 * started anew, on CPU or with an emulated GPU; undefined for others.
 */
async function foreign({ recommendation, cwd }: MainJobRun): Promise<number | undefined> {
  const { best, confirmation, slo } = recommendation
  if (foreignS === 0 || plainClient === undefined || best === undefined || !confirmation?.met)
    return undefined
  const { predictor, devicesUsed } = await experimentIn(cwd)
  if (predictor.kind !== 'builtin' || devicesUsed === 'gpu') return undefined
  const engine = devicesUsed === 'cpu' ? 'tfjs' : 'emulated'
  const asked = {
    model: predictor.model,
    configuration: best.configuration,
    engine,
    percentile: slo.percentile,
  } as const
  return underPlainLoad(plainClient, asked, async (percentileMs) => {
    await percentileMs(confirmation.rateRps, 5)
    return percentileMs(confirmation.rateRps, foreignS)
  })
}

const runs: MainJobRun[] = []
const coreSpeeds: number[] = []
const foreignMs: number[] = []
const rows = [
  [
    'seed',
    'core',
    'exit',
    'seconds',
    'trials',
    'recommended',
    'status',
    'held, req/s',
    'first asked',
    'estimate',
    'believed',
    'plain client',
  ],
]
for (let seed = firstSeed; seed < firstSeed + Number(seedsAsked); seed++) {
  const coreSpeed = measureCoreSpeed()
  coreSpeeds.push(coreSpeed)
  const run = await runMainJob(flags, seed, folder)
  runs.push(run)
  const { best, trials, confirmation } = run.recommendation
  const found = await foreign(run)
  if (found !== undefined) foreignMs.push(found)
  rows.push([
    String(seed),
    `${coreSpeed.toFixed(2)} x`,
    String(run.exitCode),
    run.seconds.toFixed(0),
    String(trials),
    best?.label ?? 'none',
    best?.status ?? '-',
    confirmation?.met ? confirmation.rateRps.toFixed(0) : '-',
    run.first ? `${run.first.rateRps.toFixed(0)} ${run.first.met ? 'met' : 'violated'}` : '-',
    run.first?.estimateRps?.toFixed(0) ?? '-',
    run.first?.believedRps?.toFixed(0) ?? '-',
    found === undefined ? '-' : `${found.toFixed(1)} ms`,
  ])
  console.error(rows.at(-1)!.join('  '))
}
console.log(`tune ${flags.join(' ')}\n${formatTable(rows).join('\n')}`)
const seconds = runs.map((run) => run.seconds)
const share = (holds: (run: MainJobRun) => boolean) =>
  `${runs.filter(holds).length} of ${runs.length}`
console.log(
  `\nmedian ${quantile(seconds, 0.5).toFixed(0)} s, p90 ${quantile(seconds, 0.9).toFixed(0)} s; confirmed ${share((r) => r.recommendation.best?.status === 'confirmed')}; the rate first asked held ${share((r) => r.first?.met === true)}`,
)
const { limitMs } = runs[0]!.recommendation.slo
if (foreignMs.length > 0)
  console.log(
    `the plain client held the SLO in ${foreignMs.filter((ms) => ms <= limitMs).length} of ${foreignMs.length} windows of ${foreignS} s`,
  )
const etas = runs.flatMap((run) => run.etas)
if (etas.length > 0) {
  const of = (p: number) =>
    quantile(
      etas.map(({ saidS, tookS }) => saidS / tookS),
      p,
    ).toFixed(2)
  console.log(
    `time left as the terminal said it after each trial, over what it took: median ${of(0.5)}, p10 ${of(0.1)}, p90 ${of(0.9)}`,
  )
}
const purposes = [...new Set(runs.flatMap((run) => [...run.spent.keys()]))]
const mean = (purpose: string) =>
  runs.reduce((sum, run) => sum + (run.spent.get(purpose) ?? 0), 0) / runs.length
console.log(
  `\n${formatTable([['seconds of a run', 'mean'], ...purposes.map((purpose) => [purpose, mean(purpose).toFixed(1)])]).join('\n')}`,
)
if (runs[0]!.recommendation.provenance === 'emulated') await compareWithCheapest()
rmSync(folder, { recursive: true, force: true })

/** By the plain client where there is one, and the device model says where to begin. */
async function costUnderLoad(
  experiment: Experiment,
  configuration: Configuration,
  pricePerHour: number,
  expectedRps?: number,
): Promise<Cost> {
  if (plainClient === undefined || expectedRps === undefined)
    return measuredCost(experiment, configuration, pricePerHour)
  const { slo, model } = experiment
  const asked = {
    model: model.architecture,
    configuration,
    engine: 'emulated',
    percentile: slo.percentile,
  } as const
  const capacityRps = await underPlainLoad(plainClient, asked, (percentileMs) =>
    plainlyHeldRps(percentileMs, slo, expectedRps),
  )
  return costAt(experiment, configuration, { capacityRps, pricePerHour })
}

/**
 * How far the recommended ones are from the cheapest of the space: by the device model all of it,
 * under real load those that matter.
 */
async function compareWithCheapest(): Promise<void> {
  const coreSpeed = quantile(coreSpeeds, 0.5)
  const { experiment, modelled } = await modelledSpace(runs[0]!.cwd, coreSpeed)
  const recommended = new Map(
    runs.flatMap(({ recommendation: { best } }) =>
      best ? [[configurationKey(best.configuration), best] as const] : [],
    ),
  )
  if (modelled.size === 0 || recommended.size === 0) return
  const keyOf = ({ recommendation: { best } }: MainJobRun) =>
    best && configurationKey(best.configuration)
  const [cheapest] = modelled.values()
  console.log(
    `\nof ${modelled.size} configurations that serve, by the device model on cores of ${coreSpeed.toFixed(2)} x: cheapest ${cheapest!.label}, ${cheapest!.capacityRps.toFixed(0)} req/s; recommended within 5 % of it: ${share((run) => isNearCheapest(run, modelled))}`,
  )
  if (realBest === 0) return
  const contenders = [...new Map([...[...modelled].slice(0, realBest), ...recommended])]
  const readings = contenders.map((): Cost[] => [])
  for (let round = 0; round < realRounds; round++)
    for (const [i, [key, { configuration, pricePerHour }]] of contenders.entries())
      readings[i]!.push(
        await costUnderLoad(
          experiment,
          configuration,
          pricePerHour,
          modelled.get(key)?.capacityRps,
        ),
      )
  const costs = readings.map((rounds) => rounds.map(({ cost }) => cost))
  const medians = costs.map((of) => median(of))
  const least = Math.min(...medians)
  const measured = contenders.map(([key, { label }], i) => {
    const rates = readings[i]!.map(({ capacityRps }) => capacityRps)
    return {
      key,
      label,
      rates,
      regret: regretOf(medians[i]!, least),
      sure: sureWithin(costs, i, WITHIN),
    }
  })
  const near = new Set(measured.filter(({ regret }) => regret <= WITHIN).map(({ key }) => key))
  const percent = (value: number, digits: number) => `${(100 * value).toFixed(digits)} %`
  const lines = measured
    .sort((a, b) => a.regret - b.regret)
    .map(({ key, label, rates, regret, sure }) => [
      label,
      ...[median(rates), Math.min(...rates), Math.max(...rates)].map((rps) => rps.toFixed(0)),
      percent(regret, 1),
      percent(sure, 0),
      modelled.get(key)?.capacityRps.toFixed(0) ?? '-',
      share((run) => keyOf(run) === key),
    ])
  const head = [
    'req/s',
    'least',
    'most',
    'dearer than the cheapest',
    'sure of 5 %',
    'by the device model, req/s',
    'recommended',
  ]
  console.log(
    `${formatTable([[`under real load, ${realRounds} rounds`, ...head], ...lines]).join('\n')}\nrecommended within 5 % of the cheapest of these: ${share((run) => near.has(keyOf(run) ?? ''))}`,
  )
}
