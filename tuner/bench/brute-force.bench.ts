/**
 * How far what `tune` finds is from the best of all configurations, by measuring all of them: `node
 * --import tsx tuner/bench/brute-force.bench.ts FILE [seeds] [seconds] [rounds] [percent] [cores]`
 * (examples/fastapi-torch/experiment.yaml, 5 seeds, 10 s of open load for each configuration, in 3
 * rounds, 10 %). Each round measures every configuration once, and the seeds' runs stand between
 * the rounds: what else the machine does comes and goes over all of them alike, and a configuration
 * counts with the median of its rounds. A space of twenty configurations takes some twelve minutes
 * in all, and each seed about two. Prints the table, best first, with how far the rounds are apart,
 * then what each seed recommended, its place in the table, its cost above the best by the table's
 * own figures and how surely it is within so many per cent of it (by the rounds). Exit code 1 where
 * the median seed is further above; 4 where the rounds are too far apart to be nine tenths sure of
 * either. Streamed answers take longer: `node --import tsx tuner/bench/brute-force.bench.ts
 * examples/gguf/experiment.yaml
 * 3 90 3 5` takes half an hour (8 configurations of 30 s in each round, five minutes a seed). Where
 * a machine has more cores than one run needs, so many at once: `0,1 2,3 4,5` gives each of three
 * runs two cores of its own, the seeds' runs first.
 */
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { median } from 'simple-statistics'
import { parseDocument } from 'yaml'
import type { Candidate, Recommendation } from '../../reports/recommendation/types.ts'
import { configurationKey, enumerateConfigurations } from '../../search/space/space.ts'
import type { Configuration } from '../../search/types.ts'
import { inspectMachine } from '../../trials/machine/machine-facts.ts'
import { formatTable } from '../cli/render/columns.ts'
import { createHostContext } from '../config/host-context.ts'
import { loadExperiment } from '../config/load-experiment.ts'
import { exitCodes } from '../exit-codes.ts'
import build from '../testing/build.ts'
import { CliBox } from '../testing/run-cli.ts'
import { regretOf, sureWithin } from './rounds.ts'

const [
  ,
  ,
  file = 'examples/fastapi-torch/experiment.yaml',
  seeds = '5',
  seconds = '10',
  rounds = '3',
  percent = '10',
  ...cores
] = process.argv
const allowed = Number(percent) / 100
if (!(Number(seconds) > 0 && Number(rounds) >= 1 && allowed > 0))
  throw new Error('FILE [seeds] [seconds] [rounds] [percent], numbers all but the first')
build()

/** Sets of cores that no run has; without any, the machine's own, for one run at a time. */
const idle: (string | undefined)[] = cores.length > 0 ? cores : [undefined]
const waiting: (() => void)[] = []

/**
 * `tune` in a folder of its own, whole; with the space narrowed to one configuration where one is
 * given. Waits for cores of its own where there are such.
 */
async function tune(
  flags: readonly string[],
  only?: Configuration,
): Promise<Recommendation & { readonly tookS: number }> {
  while (idle.length === 0) await new Promise<void>((resolve) => waiting.push(resolve))
  const own = idle.shift()
  const startedMs = performance.now()
  try {
    const said = await tuneOn(own, flags, only)
    return { ...said, tookS: (performance.now() - startedMs) / 1000 }
  } finally {
    idle.push(own)
    waiting.shift()?.()
  }
}

async function tuneOn(
  own: string | undefined,
  flags: readonly string[],
  only?: Configuration,
): Promise<Recommendation> {
  const box = new CliBox()
  try {
    cpSync(dirname(resolve(file)), box.folder, { recursive: true })
    const experiment = join(box.folder, basename(file))
    if (only) writeFileSync(experiment, narrowed(readFileSync(experiment, 'utf8'), only))
    const child = box.start(['-f', experiment, '--json', '--no-history', ...flags], {}, own)
    const { stdout, stderr } = await child.result
    if (stdout === '') throw new Error(`tune ${flags.join(' ')} said nothing: ${stderr}`)
    return JSON.parse(stdout) as Recommendation
  } finally {
    box.dispose()
  }
}

/** The experiment file with one value for each parameter of its space. */
function narrowed(text: string, configuration: Configuration): string {
  const document = parseDocument(text)
  for (const [name, value] of Object.entries(configuration)) {
    const category = document.getIn(['space', name, 'category'])
    if (document.hasIn(['space', name]))
      document.setIn(
        ['space', name],
        category === undefined ? [value] : { values: [value], category },
      )
  }
  return document.toString()
}

interface Read {
  readonly candidate: Candidate
  /** Of each round in which it kept the SLO. */
  readonly costs: number[]
}
const reads = new Map<string, Read>()
const missed = new Set<string>()

const everything = enumerateConfigurations(
  loadExperiment({ file, ...createHostContext(await inspectMachine()) }).space,
)

/**
 * Every configuration once, each as an experiment of its own: beside others a trial ends as soon as
 * it has lost, and its cost is not known.
 */
async function round(number: number): Promise<void> {
  const each = String(Number(seconds) / Number(rounds))
  const flags = [
    '--sampler',
    'grid',
    '--max-trials',
    '1',
    '--trial-time',
    `${each}s`,
    '--no-confirm',
    '--seed',
    String(number),
  ]
  const reading = everything.map(async (configuration) => {
    const key = configurationKey(configuration)
    const { best: candidate, nearest } = await tune(flags, configuration)
    // What a disturbed trial says is nothing: other rounds will.
    if (candidate && candidate.status !== 'inconclusive')
      reads.set(key, { candidate, costs: [...(reads.get(key)?.costs ?? []), candidate.cost] })
    else if (nearest && nearest.status !== 'inconclusive' && nearest.status !== 'failed')
      missed.add(key)
  })
  await Promise.all(reading)
  process.stderr.write(
    `round ${number} of ${rounds}: ${reads.size} of ${everything.length} configurations keep the SLO so far\n`,
  )
}

const spread = (values: readonly number[]): number => {
  const sizes = values.map(Math.abs)
  return Math.max(...sizes) / Math.min(...sizes) - 1
}

/**
 * The runs of the seeds: each between two rounds as long as there are rounds left; the longest
 * first where several run at once.
 */
const found: {
  readonly seed: number
  readonly best: Candidate | undefined
  readonly took: string
}[] = []
async function seedRun(seed: number): Promise<void> {
  const { best, trials, tookS } = await tune(['--seed', String(seed)])
  found.push({ seed, best, took: `${trials} trials, ${tookS.toFixed(0)} s` })
}
const numbers = (most: string) => Array.from({ length: Number(most) }, (_, i) => i + 1)
if (cores.length > 1)
  await Promise.all([...numbers(seeds).map(seedRun), ...numbers(rounds).map(round)])
else {
  const turns = numbers(String(Math.max(Number(rounds), Number(seeds))))
  for (const turn of turns) {
    if (turn <= Number(rounds)) await round(turn)
    if (turn <= Number(seeds)) await seedRun(turn)
  }
}
found.sort((a, b) => a.seed - b.seed)

const ranked = [...reads]
  .filter(([key, { costs }]) => !missed.has(key) || costs.length > Number(rounds) / 2)
  .map(([key, { candidate, costs }]) => ({ key, candidate, costs, cost: median(costs) }))
  .sort((a, b) => a.cost - b.cost)
const [best] = ranked
if (!best) throw new Error('no configuration keeps the SLO in any round')
const above = (cost: number) => `+${(100 * regretOf(cost, best.cost)).toFixed(1)} %`
const rows = ranked.map(({ candidate: { label }, costs, cost }, i) => [
  String(i + 1),
  label,
  above(cost),
  `${costs.length} of ${rounds}, ${(100 * spread(costs)).toFixed(0)} % apart`,
])
process.stdout.write(
  `${formatTable([['', 'configuration', 'above the best', 'rounds'], ...rows]).join('\n')}\n\n`,
)

/**
 * Of each seed, how far above the best what it recommends is, and how surely that is little enough.
 */
const judged = found.map(({ seed, best: recommended, took }) => {
  const key = recommended && configurationKey(recommended.configuration)
  const place = ranked.findIndex((one) => one.key === key)
  const regret = place < 0 ? Number.POSITIVE_INFINITY : regretOf(ranked[place]!.cost, best.cost)
  const costs = ranked.map((one) => one.costs)
  const sure = place < 0 ? 0 : sureWithin(costs, place, allowed)
  const within = `within ${100 * allowed} % ${(100 * sure).toFixed(0)} % sure`
  const where =
    place < 0
      ? 'not in the table'
      : `place ${place + 1} of ${ranked.length}, ${above(ranked[place]!.cost)}, ${within}`
  process.stdout.write(
    `seed ${seed}: ${recommended?.label ?? 'nothing'} (${recommended?.status}), ${took}: ${where}\n`,
  )
  return { regret, sure }
})
if (judged.length > 0) {
  const [regret, sure] = [
    median(judged.map((seed) => seed.regret)),
    median(judged.map((seed) => seed.sure)),
  ]
  const within = judged.filter((seed) => seed.regret <= allowed).length
  process.stdout.write(
    `${within} of ${judged.length} within ${100 * allowed} % of the best, median +${(100 * regret).toFixed(1)} %\n`,
  )
  const tells = (regret <= allowed ? sure : 1 - sure) >= 0.9
  if (!tells)
    process.stdout.write(
      'the rounds are too far apart to be sure: more rounds, or a machine that does less else\n',
    )
  process.exitCode = !tells
    ? exitCodes.unconfirmed
    : regret <= allowed
      ? exitCodes.ok
      : exitCodes.failure
}
