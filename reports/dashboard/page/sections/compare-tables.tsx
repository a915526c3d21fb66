/**
 * Tables of results, a column for each experiment, and of configurations that two of them measured.
 */
import type { ComponentChild } from 'preact'
import { money, percent, rate, sloText } from '../../../format.ts'
import { listCandidates } from '../../../recommendation/candidates.ts'
import { describeStatus } from '../../../recommendation/describe-status.ts'
import { type Candidate, conclusions, type Recommendation } from '../../../recommendation/types.ts'
import { formatGain } from '../../../recommendation/verdict.ts'
import { estimateText, formatCapacity } from '../../../recommendation/words.ts'
import { describeDifferences, pairCandidates } from '../../data/analysis.ts'
import type { DashboardExperiment } from '../../data/page-data.ts'
import { Table } from '../elements.tsx'
import { ProvenanceBadge } from './verdict.tsx'

const maxPairs = 25
const maxDifferences = 4

/** An experiment as it stands under the page's question. */
export interface Side {
  readonly experiment: DashboardExperiment
  readonly recommendation: Recommendation
}

export function ExperimentsCompared({ sides }: { sides: readonly Side[] }) {
  const row = (name: string, of: (side: Side) => ComponentChild) => [name, ...sides.map(of)]
  const best = (of: (c: Candidate, r: Recommendation) => string) => (side: Side) =>
    side.recommendation.best
      ? of(side.recommendation.best, side.recommendation)
      : conclusions[side.recommendation.conclusion]
  const price = (c: Candidate) =>
    `${money(c.pricePerHour)} / h, ${money(c.pricePerMillionRequests)} per million requests`
  const rows = [
    row('model', ({ experiment }) => experiment.model),
    row('how', ({ recommendation }) => <ProvenanceBadge provenance={recommendation.provenance} />),
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
    row('safe capacity', best(formatCapacity)),
    row('estimate [90 %]', best(estimateText)),
    row('price', best(price)),
    row('bottleneck', ({ recommendation: { binding } }) => `${binding.what}: ${binding.evidence}`),
    row('gain', ({ recommendation: { gainOverDefault, objective } }) =>
      gainOverDefault === undefined ? '' : formatGain(objective, gainOverDefault),
    ),
    row('trials', ({ recommendation }) => recommendation.trials),
    row('begun', ({ experiment }) => experiment.createdAt.slice(0, 10)),
    row('seed', ({ experiment }) => experiment.seed),
  ]
  return (
    <>
      <Table
        caption="Experiments side by side"
        head={['', ...sides.map(({ experiment }) => experiment.id)]}
        rows={rows}
      />
      {sides.slice(1).map((side) => (
        <OtherQuestion own={sides[0]!} other={side} />
      ))}
      {sides.slice(1).map((side, i) => (
        <MeasuredInBoth earlier={sides.slice(0, i + 1)} right={side} />
      ))}
    </>
  )
}

/** Notes that the other experiment was measured under other settings than this one. */
function OtherQuestion({ own, other: { experiment } }: { own: Side; other: Side }) {
  const differences = describeDifferences(experiment, own.experiment)
  if (differences.length === 0) return null
  const more =
    differences.length > maxDifferences ? ` and ${differences.length - maxDifferences} more` : ''
  const words = differences.slice(0, maxDifferences).join(', ')
  return (
    <p class="note">
      {`${experiment.id} ran with ${words}${more}; here it is ranked under the SLO and prices above.`}
    </p>
  )
}

/**
 * Configurations that it and the first of the earlier ones that served its model have both
 * measured.
 */
function MeasuredInBoth({ earlier, right }: { earlier: readonly Side[]; right: Side }) {
  const { id, model } = right.experiment
  const earlierSide = earlier.find(({ experiment }) => experiment.model === model)
  if (!earlierSide)
    return (
      <p class="note">
        {`${id} served another model (${model}): its configurations are not compared one by one.`}
      </p>
    )
  const leftName = earlierSide === earlier[0] ? 'this one' : earlierSide.experiment.id
  const pairs = pairCandidates(
    listCandidates(earlierSide.recommendation),
    listCandidates(right.recommendation),
  )
  const served = pairs.filter((p) => Number.isFinite(p.ratio))
  return (
    <>
      <h3>
        {`Measured in both, ${leftName} and ${id}: ${pairs.length} configuration${pairs.length === 1 ? '' : 's'}`}
      </h3>
      {served.length > 0 ? (
        <Table
          caption={`Safe capacity of configurations measured in both, ${leftName} and ${id}`}
          head={['configuration', earlierSide.experiment.id, id, 'change', 'intervals']}
          numeric={[1, 2, 3]}
          rows={served
            .slice(0, maxPairs)
            .map((p) => [
              p.label,
              rate(p.left.capacityRps),
              rate(p.right.capacityRps),
              formatChange(p.ratio),
              p.overlap ? 'overlap: difference not certain' : 'do not overlap',
            ])}
        />
      ) : (
        <p>None of them served in both experiments.</p>
      )}
      {served.length > maxPairs && (
        <p class="note">{`and ${served.length - maxPairs} more, with smaller changes`}</p>
      )}
    </>
  )
}

const formatChange = (ratio: number): string =>
  Math.abs(ratio - 1) < 5e-4 ? 'none' : `${ratio > 1 ? '+' : '-'}${percent(Math.abs(ratio - 1))}`
