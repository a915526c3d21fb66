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
import { measureSimulatedCapacity } from '../../profiler/index.ts'
import { quantile } from '../../search/bench/score.ts'
import { cost } from '../../search/objective.ts'
import { configurationKey, enumerate } from '../../search/space.ts'
import type { Configuration, Outlook, Problem } from '../../search/types.ts'
import { architectureOf } from '../../trials/devices/architecture.ts'
import { createSimulatedLauncher } from '../../trials/launchers/simulated/simulated-launcher.ts'
import { inspectMachine } from '../../trials/machine/machine-facts.ts'
import { type FinishedTrial, InfeasibleError, type Launcher } from '../../trials/types.ts'
import { assemble } from '../backends/assemble.ts'
import type { Backend } from '../backends/backend.ts'
import { doWork, workOf } from '../backends/load-work.ts'
import { simulatedBackend } from '../backends/simulated-backend.ts'
import { loadExperiment } from '../experiment/load-experiment.ts'
import type { Experiment } from '../experiment/types.ts'
import { parseDurationMs } from '../experiment/units.ts'
import { runLoop } from '../loop/loop.ts'
import type { LoopParts } from '../loop/parts.ts'
import { expectationOf } from '../loop/problem.ts'
import { notWorth, worthOfTrial } from '../loop/trial-worth.ts'
import { table } from '../render/columns.ts'
import { fakeStore } from '../testing/fakes.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'

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
/** What a trial takes where its figures are those of long windows. */
const longTrialS = 4
const launchS = parseDurationMs(options.launch) / 1000
const coreSpeed = Number(options['core-speed'])
const cpuCostFactor = Number(options.cpu) / coreSpeed
const machine = await inspectMachine()
const confirm = options.figures !== 'long' && !options.gains
const common = {
  param: [],
  pin: [],
  constraint: [],
  backend: 'simulated',
  parallel: options.parallel,
  confirm,
}
const morphling = {
  gpus: 'T4,M60,V100',
  cores: '1,2,3,4,5',
  gpuMemory: '5,10,15,20,30,40',
  batch: '1,2,4,8,16,32,64,128',
}

interface Job {
  readonly name: string
  readonly flags: object
  readonly cpuCores: number
}
const jobs: readonly Job[] = [
  { name: 'bert 50ms', flags: { ...morphling, model: 'bert', slo: '50ms' }, cpuCores: 64 },
  {
    name: 'resnet50 100ms',
    flags: { ...morphling, model: 'resnet50', slo: '100ms' },
    cpuCores: 64,
  },
  {
    name: 'bert-large 200ms',
    flags: { ...morphling, model: 'bert-large', slo: '200ms' },
    cpuCores: 64,
  },
  {
    name: 'README: bert 50ms, two cores',
    flags: { model: 'bert', slo: '50ms', cores: '1,2' },
    cpuCores: 2,
  },
].filter(({ name }) => name.includes(options.only))
const never = new AbortController().signal

const experimentOf = ({ flags, cpuCores }: Job, seed: number): Experiment => ({
  ...loadExperiment({
    cwd: '.',
    machine: { cpuCores, gpus: [] },
    environment: {},
    flags: { ...common, ...flags, seed: String(seed) },
  }),
  cores: { speed: coreSpeed, count: cpuCores },
})

/**
 * Servers of the device model, whose CPU may cost more than it expects; trials as of real servers,
 * on this clock.
 */
function onClock(experiment: Experiment, job: Job, clock: VirtualClock): Backend {
  const backend = simulatedBackend(experiment)
  const launcher = serversOf(experiment, job)
  return {
    ...backend,
    ...(options.ahead && { launchesBeside: () => true }),
    launcher: {
      ...launcher,
      launch: async (...asked) => {
        await clock.sleep(launchS)
        return launcher.launch(...asked)
      },
    },
    measure: async (predictor, task, told, signal) => {
      if (options.figures === 'long' && task.kind === 'trial') {
        await clock.sleep(longTrialS)
        return backend.measure(predictor, task, told, signal)
      }
      const { target } = predictor
      const steps: Parameters<typeof told.onStep>[] = []
      const onStep: typeof told.onStep = (...step) => void steps.push(step)
      const measurement = await doWork(workOf(experiment, task, told.number), {
        target,
        slo: experiment.slo,
        signal,
        onStep,
      })
      // Its load begins now, by this clock.
      for (const step of steps) told.onStep(...step)
      await clock.sleep(measurement.seconds)
      return measurement
    },
  }
}

/**
 * A server that has all cores of a machine shares one with the load, which costs it as much more.
 */
const sharedCostFactor = 1.5

function serversOf({ model, seed }: Experiment, { cpuCores }: Job): Launcher {
  const architecture = architectureOf(model.architecture)
  const alone = createSimulatedLauncher({ architecture, seed, cpuCostFactor })
  const beside = createSimulatedLauncher({
    architecture,
    seed,
    cpuCostFactor: sharedCostFactor * cpuCostFactor,
  })
  return {
    ...alone,
    launch: (configuration, ...asked) =>
      (Number(configuration.cpuCores) < cpuCores ? alone : beside).launch(configuration, ...asked),
  }
}

/** What the search believed after a trial, and what it would have recommended. */
interface Belief {
  readonly outlook?: Outlook
  readonly stops: boolean
  readonly best?: Configuration
}

/**
 * What the loop is told of stopping, and what is written down of it; with `--gains` nothing ends a
 * run but its cap.
 */
function listening(
  parts: LoopParts,
  { stop, objective }: Experiment,
  beliefs: Belief[],
): Pick<LoopParts, 'assessStop' | 'store'> {
  const trials: FinishedTrial[] = []
  const append: LoopParts['store']['append'] = async (id, trial) => {
    trials.push(trial)
    await parts.store.append(id, trial)
  }
  const assessStop: LoopParts['assessStop'] = (problem, observations, rng) => {
    const assessment = parts.assessStop(problem, observations, rng)
    const { best } = parts.recommend(trials, undefined)
    const worth = best && worthOfTrial({ stop, objective }, { trials, spent: 0, best })
    const { outlook } = assessment
    const stops = assessment.stop || (worth !== undefined && notWorth(outlook, worth) !== undefined)
    beliefs.push({ stops, best: best?.configuration, ...(outlook && { outlook }) })
    return options.gains ? { ...assessment, stop: false, outlook: undefined } : assessment
  }
  return { assessStop, store: { ...parts.store, append } }
}

async function runOnce(job: Job, seed: number) {
  const experiment = experimentOf(job, seed)
  const clock = new VirtualClock()
  const parts = await assemble(experiment, `seed-${seed}`, fakeStore(), machine)
  const beliefs: Belief[] = []
  const ran = {
    ...parts,
    ...listening(parts, experiment, beliefs),
    backend: onClock(experiment, job, clock),
    expectation: expectationOf({ ...experiment, backend: 'local' }),
    now: () => clock.now,
    write: async () => [],
  }
  const { recommendation, trials, reason } = await clock.pass(
    runLoop(experiment, ran, [], () => undefined, never),
  )
  const searched = trials.filter(({ purpose }) => purpose !== 'confirmation')
  const price = trials.reduce(
    (sum, { configuration, seconds }) =>
      sum + (parts.problem.pricePerHour(configuration) * seconds) / 3600,
    0,
  )
  const loadS = searched.map((trial) =>
    trial.state === 'complete' ? trial.measurement.seconds : 0,
  )
  return {
    recommended: recommendation.best?.configuration,
    trials: searched.length,
    hours: clock.now / 3_600_000,
    price,
    reason,
    beliefs,
    loadS: loadS.reduce((sum, each) => sum + each, 0) / Math.max(1, searched.length),
  }
}
type Run = Awaited<ReturnType<typeof runOnce>>

/**
 * What every configuration costs by long windows, by its key; those that cannot serve are left out.
 */
async function truthOf(
  experiment: Experiment,
  job: Job,
  problem: Problem,
): Promise<Map<string, number>> {
  const launcher = serversOf(experiment, job)
  const { slo, objective, seed } = experiment
  const costs = new Map<string, number>()
  for (const [i, configuration] of enumerate(problem.space).entries()) {
    try {
      const { target } = await launcher.launch(configuration, i, never)
      if (target.kind !== 'virtual') throw new TypeError('not in virtual time')
      const { capacityRps } = await measureSimulatedCapacity({ target, slo, seed, signal: never })
      costs.set(
        configurationKey(configuration),
        cost(objective, { pricePerHour: problem.pricePerHour(configuration), capacityRps }),
      )
    } catch (error) {
      if (!(error instanceof InfeasibleError)) throw error
    }
  }
  return costs
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
  return [...table(rows), ended]
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
for (const job of jobs) {
  const experiment = experimentOf(job, 1)
  const { problem } = await assemble(experiment, 'truth', fakeStore(), machine)
  const truth = await truthOf(experiment, job, problem)
  const least = Math.min(...truth.values())
  const all = enumerate(problem.space)
  const runs: Run[] = []
  const from = Number(options.from)
  for (let seed = from; seed < from + Number(options.seeds); seed++) {
    runs.push(await runOnce(job, seed))
    const { trials, reason, hours } = runs.at(-1)!
    console.error(`${job.name} seed ${seed}: ${trials} trials, ${reason}, ${hours.toFixed(2)} h`)
  }
  const over = (found: Configuration | undefined) =>
    (found ? truth.get(configurationKey(found))! : Infinity) / least - 1
  if (options.gains)
    console.log([`\n${job.name}, CPU costs × ${options.cpu}`, ...gainsTable(runs, over)].join('\n'))
  const regrets = runs.map(({ recommended }) => over(recommended))
  const median = (of: (run: Run) => number) => quantile(runs.map(of), 0.5)
  const trialHours = (launchS + median((run) => run.loadS)) / 3600
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
console.log(table(rows).join('\n'))
