/**
 * Chaos: `npm run chaos -- MINUTES [--seed S] [--only NAME]... [--once] [--jobs N]`. Faults of
 * every kind, drawn by chance, are done to the real command line until the time is up, or each has
 * been played once, two at a time; the table says what was tried, and what came of it. Exit code 1
 * where anything was wrong. NAME is a fault's, or a part of it.
 */
import { parseArgs } from 'node:util'
import { createUniform } from '../../../profiler/seeded-random.ts'
import { Draw } from './draw.ts'
import { hostilePredictors } from './hostile-predictors.ts'
import { hostilePredictor, killed } from './predictor-faults.ts'
import {
  clockSteps,
  diskFull,
  storeDamaged,
  tunerKilled,
  type Verdict,
} from './simulated-faults.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    only: { type: 'string', multiple: true, default: [] },
    once: { type: 'boolean', default: false },
    jobs: { type: 'string', default: '2' },
  },
})
const minutes = Number(positionals[0] ?? 10)
if (!(minutes > 0)) throw new Error(`npm run chaos -- MINUTES, not '${positionals[0]}'`)

interface Fault {
  readonly group: string
  readonly name: string
  readonly run: (draw: Draw) => Promise<Verdict>
}
const hostile = 'hostile predictors'
const othersMore = 4
const faults: readonly Fault[] = [
  { group: 'tuner killed, and resumed (simulated trials)', name: 'tuner killed', run: tunerKilled },
  { group: 'full disk', name: 'disk full', run: diskFull },
  { group: 'clock steps', name: 'clock steps', run: clockSteps },
  { group: 'store damaged', name: 'store damaged', run: storeDamaged },
  ...Object.entries(killed).map(([what, run]) => ({
    group: `${what} killed (real predictors)`,
    name: `kill ${what}`,
    run,
  })),
  ...Object.keys(hostilePredictors).map((kind) => ({
    group: hostile,
    name: `hostile: ${kind}`,
    run: () => hostilePredictor(kind),
  })),
].filter(({ name }) => values.only.length === 0 || values.only.some((part) => name.includes(part)))
if (faults.length === 0) throw new Error(`no fault is called ${values.only.join(', ')}`)

const seed = Number(values.seed)
const tally = new Map<string, { tried: number; wrong: string[] }>()
const played = new Set<string>()
let untilMs = performance.now() + minutes * 60_000
// The fault that is under way ends first: it may have mounted something.
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    untilMs = 0
  })
console.error(
  `${minutes} minutes, ${faults.length} kinds of faults, of them ${Object.keys(hostilePredictors).length} hostile predictors; seed ${seed}`,
)
let turn = 0
/**
 * Each round: all of them, in another order; those that are no predictors, and come out differently
 * each time, several times.
 */
function* faultsInTurn(): Generator<Fault> {
  for (let round = 0; !(values.once && round > 0); round++) {
    const others = faults.filter(({ group }) => group !== hostile)
    yield* new Draw(createUniform(seed + round)).shuffled(
      values.once ? faults : [...faults, ...Array(othersMore).fill(others).flat()],
    )
  }
}

async function play(fault: Fault): Promise<void> {
  const verdict = await fault
    .run(new Draw(createUniform(seed + 1_000 * ++turn)))
    .catch((error: Error) => `the fault itself failed: ${error.message}`)
  const { tried, wrong } = tally.get(fault.group) ?? { tried: 0, wrong: [] }
  if (fault.group === hostile) played.add(fault.name)
  tally.set(fault.group, {
    tried: tried + 1,
    wrong: verdict === undefined ? wrong : [...wrong, `${fault.name}: ${verdict}`],
  })
  console.error(
    `${verdict === undefined ? 'right' : 'WRONG'}  ${fault.name}${verdict === undefined ? '' : `: ${verdict}`}`,
  )
}

const turns = faultsInTurn()
const jobs = Array.from({ length: Number(values.jobs) }, async () => {
  for (const fault of turns) {
    if (performance.now() >= untilMs) return
    await play(fault)
  }
})
await Promise.all(jobs)

const rows = [...tally].map(
  ([group, { tried, wrong }]) => [group, tried, tried - wrong.length, wrong.length] as const,
)
const sum = (column: 1 | 2 | 3) => rows.reduce((all, row) => all + row[column], 0)
const total = [sum(1), sum(2), sum(3)]
console.log('| fault | tried | right | wrong |\n|---|---|---|---|')
for (const [group, ...counts] of [...rows, ['**all**', ...total] as const])
  console.log(`| ${group} | ${counts.join(' | ')} |`)
if (played.size > 0)
  console.log(
    `\n${played.size} of ${Object.keys(hostilePredictors).length} hostile kinds were played.`,
  )
for (const what of new Set([...tally.values()].flatMap(({ wrong }) => wrong)))
  console.log(`- ${what}`)
process.exitCode = total[2] === 0 ? 0 : 1
