/** What experiments came to, a column each, and the configurations that two of them measured. */
import { money, percent, rate, sloText } from '../../../format.ts'
import { candidatesOf } from '../../../recommendation/candidates.ts'
import { describeStatus } from '../../../recommendation/describe-status.ts'
import { type Candidate, conclusions, type Recommendation } from '../../../recommendation/types.ts'
import { gainText } from '../../../recommendation/verdict.ts'
import { capacityText, estimateText } from '../../../recommendation/words.ts'
import { askedOtherwise, pairsOf } from '../../analysis.ts'
import type { DashboardExperiment } from '../../data.ts'
import { type Child, h, table } from '../dom.ts'
import { provenanceBadge } from './verdict-section.ts'

const mostPairs = 25
const mostDifferences = 4

/** An experiment as it stands under the page's question. */
export interface Side {
  readonly experiment: DashboardExperiment
  readonly recommendation: Recommendation
}

export function sideBySide(sides: readonly Side[]): HTMLElement[] {
  const row = (name: string, of: (side: Side) => Child): Child[] => [name, ...sides.map(of)]
  const best = (of: (c: Candidate, r: Recommendation) => string) => (side: Side) =>
    side.recommendation.best
      ? of(side.recommendation.best, side.recommendation)
      : conclusions[side.recommendation.conclusion]
  return [
    table(
      ['', ...sides.map(({ experiment }) => experiment.id)],
      [
        row('model', ({ experiment }) => experiment.model),
        row('how', ({ recommendation }) => provenanceBadge(recommendation.provenance)),
        row('its own SLO', ({ experiment }) => sloText(experiment.slo)),
        row('verdict under the SLO above', ({ recommendation }) => recommendation.verdict),
        row(
          'configuration',
          best((c) => c.label),
        ),
        row(
          'status',
          best((c, { provenance }) => describeStatus(c.status, provenance).name),
        ),
        row('safe capacity', best(capacityText)),
        row('estimate [90 %]', best(estimateText)),
        row(
          'price',
          best(
            (c) =>
              `${money(c.pricePerHour)} / h, ${money(c.pricePerMillionRequests)} per million requests`,
          ),
        ),
        row(
          'bottleneck',
          ({ recommendation: { binding } }) => `${binding.what}: ${binding.evidence}`,
        ),
        row('gain', ({ recommendation: { gainOverDefault, objective } }) =>
          gainOverDefault === undefined ? '' : gainText(objective, gainOverDefault),
        ),
        row('trials', ({ recommendation }) => recommendation.trials),
        row('begun', ({ experiment }) => experiment.createdAt.slice(0, 10)),
        row('seed', ({ experiment }) => experiment.seed),
      ],
      [],
      'Experiments side by side',
    ),
    ...sides.slice(1).flatMap((side) => apart(sides[0]!, side)),
    ...sides.slice(1).flatMap((side, i) => inBoth(sides.slice(0, i + 1), side)),
  ]
}

/** That it was asked another question than this one when it was measured. */
function apart({ experiment }: Side, { experiment: other }: Side): HTMLElement[] {
  const said = askedOtherwise(other, experiment)
  if (said.length === 0) return []
  const more = said.length > mostDifferences ? ` and ${said.length - mostDifferences} more` : ''
  const words = said.slice(0, mostDifferences).join(', ')
  return [
    h(
      'p',
      { class: 'note' },
      `${other.id} ran with ${words}${more}; here it is ranked under the SLO and prices above.`,
    ),
  ]
}

/**
 * Configurations that it and the first of the earlier ones that served its model have both
 * measured.
 */
function inBoth(earlier: readonly Side[], right: Side): HTMLElement[] {
  const { id, model } = right.experiment
  const left = earlier.find(({ experiment }) => experiment.model === model)
  if (!left)
    return [
      h(
        'p',
        { class: 'note' },
        `${id} served another model (${model}): its configurations are not compared one by one.`,
      ),
    ]
  const leftName = left === earlier[0] ? 'this one' : left.experiment.id
  const pairs = pairsOf(candidatesOf(left.recommendation), candidatesOf(right.recommendation))
  const served = pairs.filter((p) => Number.isFinite(p.ratio))
  return [
    h(
      'h3',
      {},
      `Measured in both, ${leftName} and ${id}: ${pairs.length} configuration${pairs.length === 1 ? '' : 's'}`,
    ),
    served.length > 0
      ? table(
          ['configuration', left.experiment.id, id, 'change', 'intervals'],
          served
            .slice(0, mostPairs)
            .map((p) => [
              p.label,
              rate(p.left.capacityRps),
              rate(p.right.capacityRps),
              changeOf(p.ratio),
              p.overlap ? 'overlap: difference not certain' : 'do not overlap',
            ]),
          [1, 2, 3],
          `Safe capacity of configurations measured in both, ${leftName} and ${id}`,
        )
      : h('p', {}, 'None of them served in both experiments.'),
    ...(served.length > mostPairs
      ? [h('p', { class: 'note' }, `and ${served.length - mostPairs} more, with smaller changes`)]
      : []),
  ]
}

const changeOf = (ratio: number): string =>
  Math.abs(ratio - 1) < 5e-4 ? 'none' : `${ratio > 1 ? '+' : '-'}${percent(Math.abs(ratio - 1))}`
