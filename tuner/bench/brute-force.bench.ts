/**
 * How far what `tune` finds is from the best of all configurations, by measuring all of them: `npm run bench:brute-force -- FILE [seeds] [seconds]`
 * (examples/fastapi-torch/experiment.yaml, 5 seeds, 10 s of open load for each configuration). Only on a machine that does nothing else; a space of twenty
 * configurations takes six minutes, and each seed about two. Prints the table, best first, then what each seed recommended, its cost above the best of the
 * table by the table's own figures, and exit code 1 where the median seed is more than 10 % above it.
 */
import { cpSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import type { Candidate, Recommendation } from '../../reports/recommendation/types.ts'
import { configurationKey } from '../../search/space.ts'
import { exitCodes } from '../exit-codes.ts'
import { table } from '../render/columns.ts'
import build from '../testing/build.ts'
import { CliBox } from '../testing/run-cli.ts'

const allowed = 0.1
const [, , file = 'examples/fastapi-torch/experiment.yaml', seeds = '5', seconds = '10'] = process.argv
build()

/** `tune` in a folder of its own, whole. */
async function tune(...flags: string[]): Promise<Recommendation> {
  const box = new CliBox()
  try {
    cpSync(dirname(resolve(file)), box.folder, { recursive: true })
    const child = box.start(['-f', join(box.folder, basename(file)), '--json', '--no-history', ...flags])
    const { stdout, stderr } = await child.result
    if (stdout === '') throw new Error(stderr)
    return JSON.parse(stdout) as Recommendation
  } finally {
    box.dispose()
  }
}

const every = await tune('--sampler', 'grid', '--max-trials', '1000', '--trial-time', `${seconds}s`, '--no-confirm')
const known = new Map<string, Candidate>(every.alternatives.map((candidate) => [configurationKey(candidate.configuration), candidate]))
if (every.best) known.set(configurationKey(every.best.configuration), every.best)
const ranked = [...known.values()].filter(({ feasible }) => feasible).sort((a, b) => a.cost - b.cost)
const [best] = ranked
if (!best) throw new Error(`no configuration of ${every.trials} keeps the SLO`)
process.stdout.write(`${every.trials} trials, ${ranked.length} configurations that keep the SLO, best first:\n`)
const rows = ranked.map(({ label, capacityRps, capacityCi90Rps: [low, high], cost }) => [
  label,
  `${capacityRps.toFixed(0)} req/s`,
  `${low.toFixed(0)}-${high.toFixed(0)}`,
  `+${(100 * (cost / best.cost - 1)).toFixed(1)} %`,
])
process.stdout.write(`${table([['configuration', 'capacity', '90 %', 'above the best'], ...rows]).join('\n')}\n\n`)

const regrets: number[] = []
for (let seed = 1; seed <= Number(seeds); seed++) {
  const startedMs = performance.now()
  const { best: found, trials } = await tune('--seed', String(seed))
  const truth = found && known.get(configurationKey(found.configuration))
  const regret = truth?.feasible ? truth.cost / best.cost - 1 : Number.POSITIVE_INFINITY
  regrets.push(regret)
  const took = `${trials} trials, ${((performance.now() - startedMs) / 1000).toFixed(0)} s`
  process.stdout.write(`seed ${seed}: ${found?.label ?? 'nothing'} (${found?.status}), ${took}: +${(100 * regret).toFixed(1)} %\n`)
}
const median = regrets.sort((a, b) => a - b)[Math.floor(regrets.length / 2)] ?? 0
const within = regrets.filter((regret) => regret <= allowed).length
process.stdout.write(`${within} of ${regrets.length} within ${100 * allowed} % of the best, median +${(100 * median).toFixed(1)} %\n`)
process.exitCode = median <= allowed ? exitCodes.ok : exitCodes.failure
