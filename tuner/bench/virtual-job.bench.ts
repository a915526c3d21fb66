/**
 * Whole runs of `tune` in virtual time, as they would be where a predictor takes long to start:
 * `npm run bench:virtual-job -- [--seeds 20 --from 1 --launch 120s --parallel 1 --ahead --only bert
 * --figures trials]`, about a minute for twenty seeds of a model on a quiet machine. Servers are
 * the device model's (`--cpu 1.3`: requests cost that many times what it expects on the CPU;
 * `--core-speed 0.5`: cores half as fast as it takes them for, which it is told), measured by the
 * search that real ones are measured by, so that trials have its length and its errors; `--figures
 * long` takes those of `--backend simulated`, from windows of 10,000 requests, in trials of four
 * seconds, and leaves confirmations out. `--ahead`: the next server starts while one is measured.
 * `--gains`: twelve trials whatever the stop rule says, and after each what the next was expected
 * to gain, what it gained, and what would have been lost by ending there. The clock counts launches
 * and load. Over Morphling's 720 configurations (SoCC '21), beside trying them one at a time. The
 * device model is the search's prior too: what it costs where that is wrong stands in `npm run
 * bench:product`.
 */
import { parseArgs } from 'node:util'
import { quantile } from '../../search/bench/score.ts'
import { enumerateConfigurations } from '../../search/space/space.ts'
import type { Configuration } from '../../search/types.ts'
import { formatTable } from '../cli/render/columns.ts'
import { parseDurationMs } from '../config/values/units.ts'
import {
  type VirtualJobRun as Run,
  runVirtualJob,
  type VirtualJobSettings,
  virtualJobs,
  virtualJobTruth,
} from './virtual-job.ts'

const { values: options } = parseArgs({
  options: {
    seeds: { type: 'string', default: '20' },
    from: { type: 'string', default: '1' },
    launch: { type: 'string', default: '120s' },
    parallel: { type: 'string', default: '1' },
    only: { type: 'string', default: '' },
    figures: { type: 'string', default: 'trials' },
    cpu: { type: 'string', default: '1' },
    'core-speed': { type: 'string', default: '1' },
    gains: { type: 'boolean', default: false },
    ahead: { type: 'boolean', default: false },
  },
})
if (options.figures !== 'trials' && options.figures !== 'long')
  throw new RangeError(`--figures takes trials or long, not '${options.figures}'`)
const settings: VirtualJobSettings = {
  launchS: parseDurationMs(options.launch) / 1000,
  parallel: Number(options.parallel),
  ahead: options.ahead,
  figures: options.figures,
  cpuFactor: Number(options.cpu),
  coreSpeed: Number(options['core-speed']),
  gains: options.gains,
}

const percent = (share: number) => `${(100 * share).toFixed(2)} %`

/**
 * By trial: what the next was expected to gain, what it gained, what would be lost by ending there,
 * and how many runs the rule would have ended.
 */
function gainsTable(
  runs: readonly Run[],
  over: (found: Configuration | undefined) => number,
): string[] {
  const rows = [
    [
      'after trial',
      'expected gain of the next: median',
      'p90',
      'of all to come: mean',
      'gained: mean',
      'lost if ended: median',
      'p90',
      'within 5 %',
      'ended',
    ],
  ]
  const most = Math.max(...runs.map(({ beliefs }) => beliefs.length))
  for (let trial = 0; trial < most; trial++) {
    const at = runs.flatMap(({ beliefs }) =>
      beliefs[trial]
        ? [{ now: beliefs[trial]!, next: (beliefs[trial + 1] ?? beliefs[trial])! }]
        : [],
    )
    const expected = at.map(({ now }) => now.outlook?.gain ?? 1)
    const together = at.map(({ now }) => now.outlook?.regret ?? 1)
    const lost = at.map(({ now }) => over(now.best))
    const gained = at
      .map(({ now, next }) => Math.log((1 + over(now.best)) / (1 + over(next.best))))
      .filter(Number.isFinite)
    const stopped = runs.filter(({ beliefs }) =>
      beliefs.slice(0, trial + 1).some(({ stops }) => stops),
    )
    rows.push([
      String(trial + 1),
      percent(quantile(expected, 0.5)),
      percent(quantile(expected, 0.9)),
      percent(together.reduce((sum, share) => sum + share, 0) / Math.max(1, together.length)),
      percent(gained.reduce((sum, gain) => sum + gain, 0) / Math.max(1, gained.length)),
      percent(quantile(lost, 0.5)),
      percent(quantile(lost, 0.9)),
      `${lost.filter((share) => share <= 0.05).length} of ${lost.length}`,
      `${stopped.length} of ${runs.length}`,
    ])
  }
  const ends = runs.map(({ beliefs }) => {
    const at = beliefs.findIndex(({ stops }) => stops)
    return at < 0 ? beliefs.length : at + 1
  })
  const lost = runs.map(({ beliefs }, i) => over(beliefs[ends[i]! - 1]?.best))
  const within = lost.filter((share) => share <= 0.05).length
  const ended = `the rule ends them after ${quantile(ends, 0.5)} (p90 ${quantile(ends, 0.9)}): ${within} of ${runs.length} within 5 %, worst ${percent(Math.max(...lost))}`
  return [...formatTable(rows), ended]
}

const rows = [
  [
    '',
    'within 5 %',
    'worst',
    'trials',
    'most',
    'load, s a trial',
    'hours',
    'price',
    'grid: hours',
    'price',
  ],
]
for (const job of virtualJobs.filter(({ name }) => name.includes(options.only))) {
  const { problem, excessOf: over } = await virtualJobTruth(job, settings)
  const all = enumerateConfigurations(problem.space)
  const runs: Run[] = []
  const from = Number(options.from)
  for (let seed = from; seed < from + Number(options.seeds); seed++) {
    runs.push(await runVirtualJob(job, seed, settings))
    const { trials, reason, hours } = runs.at(-1)!
    console.error(`${job.name} seed ${seed}: ${trials} trials, ${reason}, ${hours.toFixed(2)} h`)
  }
  if (options.gains)
    console.log([`\n${job.name}, CPU costs × ${options.cpu}`, ...gainsTable(runs, over)].join('\n'))
  const regrets = runs.map(({ recommended }) => over(recommended))
  const median = (of: (run: Run) => number) => quantile(runs.map(of), 0.5)
  const trialHours = (settings.launchS + median((run) => run.loadS)) / 3600
  rows.push([
    job.name,
    `${regrets.filter((r) => r <= 0.05).length} of ${runs.length}`,
    `${(100 * Math.max(...regrets)).toFixed(1)} %`,
    median((run) => run.trials).toFixed(0),
    String(Math.max(...runs.map((run) => run.trials))),
    median((run) => run.loadS).toFixed(1),
    median((run) => run.hours).toFixed(2),
    `$${median((run) => run.price).toFixed(2)}`,
    (all.length * trialHours).toFixed(1),
    `$${all.reduce((sum, c) => sum + problem.pricePerHour(c) * trialHours, 0).toFixed(2)}`,
  ])
}
console.log(
  `launch ${options.launch}, ${options.parallel} at once, ${options.seeds} seeds, CPU costs × ${options.cpu}, cores × ${options['core-speed']}; trials with the default configuration; hours and price with confirmations`,
)
console.log(formatTable(rows).join('\n'))
