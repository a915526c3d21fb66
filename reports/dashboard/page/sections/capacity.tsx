/**
 * Capacity: what a demand takes, what it costs, and how that changes when something is not as
 * assumed.
 */
import { money, percent, rate } from '../../../format.ts'
import type { Candidate } from '../../../recommendation/types.ts'
import { createMonthlyPriceOption } from '../../charts/capacity-chart.ts'
import { listSensitivity, planFleet } from '../../data/analysis.ts'
import type { Answer, Planning } from '../answer.ts'
import { Chart } from '../chart.tsx'
import { Table } from '../elements.tsx'

const maxCompared = 3

export function Capacity({ answer }: { answer: Answer }) {
  const { recommendation, candidates, planning, theme } = answer
  const { best } = recommendation
  if (!best || planning.isAssumed)
    return (
      <>
        <h2>Capacity plan</h2>
        <p>
          {best
            ? 'Enter a demand above to see replicas, cost per month and what changes them.'
            : 'No configuration meets the SLO.'}
        </p>
      </>
    )
  const { demandRps, headroom } = planning
  const top = findCheapest(candidates, best, planning)
  const bills = top.map(
    (c) => `trial ${c.trial} ${money(planFleet(c, demandRps, headroom).pricePerMonth)}`,
  )
  const maxRps = Math.max(demandRps * 3, best.capacityRps * 4)
  return (
    <>
      <h2>Capacity plan</h2>
      <Plan best={best} planning={planning} />
      <div class="columns">
        <div>
          <Chart
            name="bill"
            altText={`Price per month by demand. At ${rate(demandRps)}: ${bills.join(', ')}`}
            createOption={() => createMonthlyPriceOption(top, demandRps, headroom, maxRps, theme)}
          />
          <Fleets candidates={top} planning={planning} />
        </div>
        <div>
          <h3>Sensitivity</h3>
          <Sensitivity best={best} planning={planning} />
        </div>
      </div>
    </>
  )
}

function Plan({
  best,
  planning: { demandRps, headroom },
}: {
  best: Candidate
  planning: Planning
}) {
  const fleet = planFleet(best, demandRps, headroom)
  return (
    <p class="plan">
      <strong>{`${fleet.replicas} replica${fleet.replicas === 1 ? '' : 's'}`}</strong>
      {` of ${best.label} carry ${rate(demandRps)} for `}
      <strong>{`${money(fleet.pricePerMonth)} a month`}</strong>
      {`; each runs at ${percent(fleet.utilisation)} of its safe capacity, and ${percent(headroom)} or more stays free. To survive the loss of one replica (N+1): ${fleet.replicasWithSpare} for ${money(fleet.withSparePerMonth)}.`}
    </p>
  )
}

const Fleets = ({
  candidates,
  planning: { demandRps, headroom },
}: {
  candidates: readonly Candidate[]
  planning: Planning
}) => (
  <Table
    caption="Fleets for the demand"
    head={['configuration', 'replicas', 'N+1', 'per month', 'with N+1', 'utilised', 'one lost']}
    numeric={[1, 2, 3, 4, 5, 6]}
    rows={candidates.map((c) => {
      const fleet = planFleet(c, demandRps, headroom)
      return [
        `${c.trial}: ${c.label}`,
        fleet.replicas,
        fleet.replicasWithSpare,
        money(fleet.pricePerMonth),
        money(fleet.withSparePerMonth),
        percent(fleet.utilisation),
        formatUtilisationAfterLoss(fleet.utilisationOneLost),
      ]
    })}
  />
)

function Sensitivity({
  best,
  planning: { demandRps, headroom },
}: {
  best: Candidate
  planning: Planning
}) {
  const now = planFleet(best, demandRps, headroom).pricePerMonth
  return (
    <Table
      caption="Sensitivity of the bill"
      head={['when', 'replicas', 'per month', 'change']}
      numeric={[1, 2, 3]}
      rows={listSensitivity(best, demandRps, headroom).map(
        ({ scenario, replicas, pricePerMonth }) => [
          scenario,
          replicas,
          money(pricePerMonth),
          formatChange(pricePerMonth / now),
        ],
      )}
    />
  )
}

/** The recommended configuration first, then those that are cheapest for the demand. */
function findCheapest(
  candidates: readonly Candidate[],
  best: Candidate,
  { demandRps, headroom }: Planning,
): Candidate[] {
  const alternatives = candidates
    .filter((c) => c.feasible && c !== best)
    .map((c) => ({ c, pricePerMonth: planFleet(c, demandRps, headroom).pricePerMonth }))
    .sort((a, b) => a.pricePerMonth - b.pricePerMonth)
  return [best, ...alternatives.slice(0, maxCompared - 1).map(({ c }) => c)]
}

const formatUtilisationAfterLoss = (utilisation: number): string =>
  !Number.isFinite(utilisation)
    ? 'nothing left'
    : utilisation > 1
      ? `SLO violated (${percent(utilisation)})`
      : percent(utilisation)

const formatChange = (ratio: number): string =>
  Math.abs(ratio - 1) < 1e-9 ? '' : `${ratio > 1 ? '+' : '-'}${percent(Math.abs(ratio - 1))}`
