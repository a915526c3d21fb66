/**
 * `search` for programs: the least (or most) of any function of a configuration, in few calls of
 * it.
 */
import { countConfigurations, createRng, createSampler } from '../../search/index.ts'
import { computeMetricScale, computeModelledRate, type Objective } from '../../search/objective.ts'
import { type SamplerName, samplerNames } from '../../search/samplers/sampler-names.ts'
import { runSearchLoop, type SearchOutcome } from '../../search/stopping/search-loop.ts'
import type { Configuration, Observation, Problem, StopAssessment } from '../../search/types.ts'
import { ConfigError, type ConfigProblem } from '../config/config-error.ts'
import { buildSpace } from '../config/default-space.ts'
import { checkLayer, joinPath, uniformLayer } from '../config/layers.ts'
import { defaults } from '../config/names.ts'
import type { ExperimentInput } from '../config/schema/experiment-schema.ts'
import { parseShare } from '../config/units.ts'
import { exitCodes, UserError } from '../exit-codes.ts'

/** A number, or why the configuration cannot be measured: that is learned from, too. */
export type Evaluated = number | { readonly infeasible: string }

export interface SearchTrial {
  readonly configuration: Configuration
  /** Why it was tried. */
  readonly why: string
  readonly result: Evaluated
}

export interface SearchOptions {
  /**
   * Parameters and their values, as the experiment file has them: `{ workers: '1..16', mode:
   * ['fast', 'safe'], delayMs: { min: 0, max: 20, step: 1 } }`.
   */
  readonly space: NonNullable<ExperimentInput['space']>
  /** Conditions that every configuration keeps: 'workers <= queue'. */
  readonly constraints?: readonly string[]
  /**
   * What is asked for a configuration. It may take as long as it likes; what it throws ends the
   * search.
   */
  readonly evaluate: (
    configuration: Configuration,
    signal: AbortSignal,
  ) => Evaluated | Promise<Evaluated>
  /** Default 'min'. */
  readonly goal?: 'min' | 'max'
  /** Default 12. */
  readonly maxTrials?: number
  /**
   * Stops once it is this certain that nothing untried is better by more than `tolerance`; shares,
   * default 0.95 and 0.05.
   */
  readonly certainty?: number
  readonly tolerance?: number
  /** Default 'gp': a Gaussian process. */
  readonly sampler?: SamplerName
  /** The same seed asks for the same configurations; default 1. */
  readonly seed?: number
  /** Ends the search with what it has. */
  readonly signal?: AbortSignal
  readonly onTrial?: (trial: SearchTrial) => void
}

export interface SearchResult {
  /** Absent: no configuration could be measured. */
  readonly best?: { readonly configuration: Configuration; readonly value: number }
  readonly trials: readonly SearchTrial[]
  readonly reason: 'certain' | 'max-trials' | 'space-exhausted' | 'interrupted'
  /**
   * What the stop rule believed last: the probability that something untried is better by more than
   * the tolerance.
   */
  readonly probabilityBetterExists?: number
}

const value = 'value'

/**
 * Searches a space for the configuration with the least (or the greatest) value of a function, of
 * any sign.
 * @throws ConfigError for a space that cannot be read, UserError for a value that is no finite
 * number, and what `evaluate` throws
 */
export async function search(options: SearchOptions): Promise<SearchResult> {
  const {
    evaluate,
    goal = 'min',
    signal = new AbortController().signal,
    seed = defaults.seed,
    onTrial,
  } = options
  const objective: Objective = { kind: `${goal}-metric`, metric: value }
  const problem: Problem = { space: spaceOf(options), objective, pricePerHour: () => 1 }
  const rounds = runSearchLoop(problem, createSampler(options.sampler), createRng(seed), {
    maxTrials: options.maxTrials ?? defaults.maxTrials,
    rule: {
      tolerance: options.tolerance ?? parseShare(defaults.tolerance),
      risk: 1 - (options.certainty ?? parseShare(defaults.certainty)),
    },
    until: (_, assessments) => {
      assessment = assessments.at(-1)
      return signal.aborted
    },
  })
  const trials: SearchTrial[] = []
  let assessment: StopAssessment | undefined
  const found = (reason: SearchResult['reason']): SearchResult => ({
    ...bestOf(trials, goal),
    trials,
    reason,
    ...(assessment && { probabilityBetterExists: assessment.probabilityBetterExists }),
  })
  for (let step = rounds.next(); ; ) {
    if (step.done) {
      assessment = step.value.assessments.at(-1)
      return found(endOf(step.value.reason, trials.length >= countConfigurations(problem.space)))
    }
    if (signal.aborted) return found('interrupted')
    const { configuration, why } = step.value
    let result: Evaluated
    try {
      result = checked(await evaluate(configuration, signal), configuration)
    } catch (error) {
      if (signal.aborted) return found('interrupted')
      throw error
    }
    const trial = { configuration, why, result }
    trials.push(trial)
    onTrial?.(trial)
    step = rounds.next(observationOf(trial, objective, trials))
  }
}

/** Where nothing is left to try, that is why it ended, however certain. */
function endOf(reason: SearchOutcome['reason'], allTried: boolean): SearchResult['reason'] {
  if (reason === 'ended') return 'interrupted'
  return allTried ? 'space-exhausted' : reason
}

/** @throws ConfigError with everything that is wrong with it */
function spaceOf({
  space: asked,
  constraints = [],
  goal = 'min',
  sampler = defaults.sampler,
  maxTrials = defaults.maxTrials,
}: SearchOptions) {
  const layer = uniformLayer(
    { space: asked, constraints: [...constraints] },
    { kind: 'given' },
    process.cwd(),
  )
  const { entries, problems: found } = checkLayer(layer)
  const problems: ConfigProblem[] = [...found]
  // Programs without types give what they like.
  if (!['min', 'max'].includes(goal))
    problems.push({ where: 'goal', what: `'${goal}' is not a goal`, hint: 'use min or max' })
  if (!samplerNames.includes(sampler))
    problems.push({
      where: 'sampler',
      what: `'${sampler}' is not a sampler`,
      hint: `use one of ${samplerNames.join(', ')}`,
    })
  if (!(Number.isInteger(maxTrials) && maxTrials > 0))
    problems.push({
      where: 'maxTrials',
      what: `${maxTrials} is not a number of trials`,
      hint: 'use a whole number above 0',
    })
  // Names of servers' parameters mean nothing here.
  const own = Object.fromEntries(
    Object.entries(entries.space ?? {}).map(([name, entry]) => [
      name,
      { category: 'env' as const, ...entry },
    ]),
  )
  const { space } = buildSpace(
    { space: own, constraints: entries.constraints },
    {
      backend: 'simulated',
      devices: 'cpu',
      predictor: 'pod',
      cpuCores: Number.POSITIVE_INFINITY,
      gpus: [],
    },
    (path, what, hint) => problems.push({ where: joinPath(path), what, hint }),
    [],
    found.length > 0,
  )
  if (problems.length === 0 && space.parameters.length === 0)
    problems.push({ where: 'space', what: 'no parameters', hint: "add one: { workers: '1..16' }" })
  if (problems.length > 0) throw new ConfigError(problems)
  return space
}

function checked(result: Evaluated, configuration: Configuration): Evaluated {
  if (typeof result === 'number' ? Number.isFinite(result) : typeof result?.infeasible === 'string')
    return result
  throw new UserError(
    `evaluate returned ${typeof result === 'number' ? result : (JSON.stringify(result) ?? 'nothing')} for ${JSON.stringify(configuration)}`,
    "return a finite number, or { infeasible: 'why' }",
    exitCodes.usage,
  )
}

function observationOf(
  { configuration, result }: SearchTrial,
  objective: Objective,
  trials: readonly SearchTrial[],
): Observation {
  if (typeof result !== 'number')
    return { configuration, state: 'infeasible', reason: result.infeasible }
  const measured = (figure: number) => ({ capacityRps: 1, metrics: { [value]: figure } })
  const scale = computeMetricScale(
    objective,
    trials.flatMap((trial) => (typeof trial.result === 'number' ? [measured(trial.result)] : [])),
  )
  return {
    configuration,
    state: 'complete',
    rate: { value: computeModelledRate(objective, measured(result), scale) },
  }
}

function bestOf(trials: readonly SearchTrial[], goal: 'min' | 'max'): Pick<SearchResult, 'best'> {
  const sign = goal === 'min' ? 1 : -1
  const measured = trials.flatMap(({ configuration, result }) =>
    typeof result === 'number' ? [{ configuration, value: result }] : [],
  )
  const [best] = measured.sort((a, b) => sign * (a.value - b.value))
  return best ? { best } : {}
}
