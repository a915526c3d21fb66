/** What is mutated, which mutants have names, and which change nothing. */

/** The decisions: sources and folders, each with a score of its own. */
export const decisions = [
  'search',
  'search/samplers',
  'profiler/slo.ts',
  'profiler/statistics',
  'profiler/capacity',
  'profiler/protocols/answer-check.ts',
  'profiler/protocols/expectations.ts',
  'profiler/protocols/golden-answers.ts',
  'trials/launchers/checked-answers.ts',
  'trials/launchers/golden-store.ts',
  'trials/machine/gpu-offer.ts',
  'trials/prices',
  'reports/recommendation',
  'reports/plan/plan-costs.ts',
  'reports/plan/commitment.ts',
  'reports/watch',
  'tuner/loop',
] as const

/** An expression that stands once in a source, and what it is replaced with. */
export interface NamedMutant {
  readonly name: string
  readonly file: string
  readonly original: string
  readonly replacement: string
}

/** Faults that once passed the whole main job: each stays dead. */
export const named: readonly NamedMutant[] = [
  {
    name: 'spend x 60',
    file: 'tuner/loop/trial-log.ts',
    original: '(pricePerHour(configuration) * seconds) / 3600',
    replacement: '(pricePerHour(configuration) * seconds) / 60',
  },
  {
    name: 'capacity to beat x 60',
    file: 'search/objective.ts',
    original: 'pricePerHour / 3600 / (cost / 1e6)',
    replacement: 'pricePerHour / 60 / (cost / 1e6)',
  },
  {
    name: 'spread of a capacity x 2',
    file: 'tuner/loop/observations.ts',
    original: 'Math.log(high / low) / (2 * z90)',
    replacement: 'Math.log(high / low) / z90',
  },
  {
    name: 'confirmations fed to the search',
    file: 'tuner/loop/observations.ts',
    original: "if (trial.purpose === 'confirmation') return lessonOf",
    replacement: 'if (missedBetween(trial)) return lessonOf',
  },
  {
    name: 'old failures counted after a resume',
    file: 'tuner/loop/trial-log.ts',
    original: 'this.#trials.slice(this.#options.earlier.length)',
    replacement: 'this.#trials',
  },
  {
    name: 'confirming at 100 % of the capacity',
    file: 'reports/recommendation/unsettled.ts',
    original: 'low > 0 && low < capacityRps ? Math.min(likely, careful) : likely',
    replacement: 'capacityRps',
  },
  {
    name: 'simulated trials over the SLO by 5 %',
    file: 'profiler/capacity/counted-search.ts',
    original: 'server.countOver(load, slo.limitMs, most)',
    replacement: 'server.countOver(load, 1.05 * slo.limitMs, most)',
  },
]

export interface Equivalent extends Omit<NamedMutant, 'name'> {
  readonly reason: string
}

/** Numbers that only keep one stream of chance apart from another. */
const seeds = {
  'profiler/capacity/posterior.ts': [
    ['seed + 101 * r', '(seed) - (101 * r)'],
    ['101 * r', '(101) / (r)'],
    ['101', '202'],
    ['seed + 31 * r', '(seed) - (31 * r)'],
    ['31 * r', '(31) / (r)'],
    ['31', '62'],
  ],
  'profiler/capacity/twin/twin-capacity.ts': [
    ['seed + 7', '(seed) - (7)'],
    ['7', '14'],
    ['seed + 11', '(seed) - (11)'],
    ['11', '22'],
    ['seed + 13', '(seed) - (13)'],
    ['13', '26'],
  ],
}

const eitherWay = 'whether two SLOs are the same does not hang on which comes first'

/** Mutants that no test can kill, each with the reason. */
export const equivalents: readonly Equivalent[] = [
  {
    file: 'tuner/loop/trial-runner.ts',
    original: '[signal, died.signal]',
    replacement: '[died.signal, signal]',
    reason: 'either of two signals aborts, in whatever order they stand',
  },
  {
    file: 'tuner/loop/trial-runner.ts',
    original: '[predictor.died, sleep(deathNoticeMs)]',
    replacement: '[sleep(deathNoticeMs), predictor.died]',
    reason: 'the first of two to settle wins, in whatever order they stand',
  },
  {
    file: 'tuner/loop/search-phase.ts',
    original: '[this.#signal, this.#fault.signal]',
    replacement: '[this.#fault.signal, this.#signal]',
    reason: 'either of two signals aborts, in whatever order they stand',
  },
  {
    file: 'search/local-search.ts',
    original: 'candidates.length > SHORTLIST',
    replacement: '(candidates.length) >= (SHORTLIST)',
    reason: 'a shortlist of all is all',
  },
  {
    file: 'search/lbfgs.ts',
    original: 'i < y.length',
    replacement: '(i) <= (y.length)',
    reason: 'what is written beyond the end of a typed array is nowhere',
  },
  {
    file: 'search/incumbent.ts',
    original: 'constraint?.mean[i] ?? Number.NaN',
    replacement: 'constraint?.mean[i]',
    reason: 'what is undefined counts as no number',
  },
  {
    file: 'search/starts.ts',
    original: 'distance(row, k)',
    replacement: 'distance(k, row)',
    reason: 'a distance is the same both ways',
  },
  {
    file: 'search/starts.ts',
    original: 'distance(row, candidate)',
    replacement: 'distance(candidate, row)',
    reason: 'a distance is the same both ways',
  },
  {
    file: 'search/physics-prior.ts',
    original: 'Math.sqrt(1 + (z / OUTLIER) ** 2) - 1',
    replacement: '(Math.sqrt(1 + (z / OUTLIER) ** 2)) + (1)',
    reason: 'a constant added to what is minimised',
  },
  {
    file: 'profiler/capacity/posterior.ts',
    original: 'logCapacities[r]![i]! + offset',
    replacement: '(logCapacities[r]![i]!) - (offset)',
    reason: 'the twin is wrong either way alike',
  },
  {
    file: 'profiler/capacity/twin/twin-capacity.ts',
    original: 'total += -Math.log(uniform())',
    replacement: 'total -= (-Math.log(uniform()))',
    reason: 'arrivals are divided by their total, sign and all',
  },
  {
    file: 'profiler/capacity/twin/twin-capacity.ts',
    original: '-Math.log(uniform())',
    replacement: 'Math.log(uniform())',
    reason: 'arrivals are divided by their total, sign and all',
  },
  ...Object.entries(seeds).flatMap(([file, pairs]) =>
    pairs.map(([original = '', replacement = '']) => ({
      file,
      original,
      replacement,
      reason: 'chance is as good from another seed',
    })),
  ),
  {
    file: 'profiler/slo.ts',
    original: 'countsTheSame(a, b)',
    replacement: 'countsTheSame(b, a)',
    reason: eitherWay,
  },
  {
    file: 'reports/recommendation/second-look.ts',
    original: 'sameSlo(measurement.slo, slo)',
    replacement: 'sameSlo(slo, measurement.slo)',
    reason: eitherWay,
  },
  {
    file: 'reports/recommendation/pareto-front.ts',
    original: 'n > leader',
    replacement: '(n) >= (leader)',
    reason: 'the leader itself is passed over',
  },
  {
    file: 'reports/recommendation/reasons.ts',
    original: 'known !== undefined && minQuality !== undefined',
    replacement: '(known !== undefined) || (minQuality !== undefined)',
    reason: 'what is not known is less than nothing, and nothing is less than it',
  },
  ...[
    ['countsTheSame(measurement.slo, slo)', 'countsTheSame(slo, measurement.slo)'],
    ['countsTheSame(made.slo, slo)', 'countsTheSame(slo, made.slo)'],
    ['sameSlo(measurement.slo, slo)', 'sameSlo(slo, measurement.slo)'],
  ].map(([original = '', replacement = '']) => ({
    file: 'profiler/capacity/other-slo/capacity-under.ts',
    original,
    replacement,
    reason: eitherWay,
  })),
]
