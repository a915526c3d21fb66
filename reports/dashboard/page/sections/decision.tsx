/** Cost against safe capacity, with the baseline and what was gained. */
import { useState } from 'preact/hooks'
import { getOpenRivals } from '../../../recommendation/open-rivals.ts'
import {
  type CostMeasure,
  createDecisionOption,
  describeDecision,
  formatCostUnit,
  listCostMeasures,
} from '../../charts/decision-chart.ts'
import type { Answer } from '../answer.ts'
import { TrialChart } from '../chart.tsx'
import { Switch } from '../elements.tsx'

export function Decision({ answer }: { answer: Answer }) {
  const { recommendation, candidates, devices, theme } = answer
  const costMeasures = listCostMeasures(recommendation)
  const offered = costMeasures.join()
  const [choice, choose] = useState<{ costMeasure: CostMeasure; offered: string }>()
  // The choice counts only while the same cost measures are offered.
  const costMeasure = choice?.offered === offered ? choice.costMeasure : costMeasures[0]!
  const isEmpty = recommendation.best === undefined && candidates.every((c) => !(c.capacityRps > 0))
  return (
    <>
      <header>
        <h2>Cost and capacity</h2>
        <Switch
          legend="Cost"
          name="cost-measure"
          choices={costMeasures.map((measure) => [measure, formatCostUnit(measure)] as const)}
          value={costMeasure}
          choose={(chosen) => choose({ costMeasure: chosen, offered })}
        />
      </header>
      {!isEmpty && (
        <TrialChart
          answer={answer}
          name="decision"
          altText={describeDecision(recommendation, costMeasure)}
          size="tall"
          createOption={() => createDecisionOption({ recommendation, costMeasure, devices }, theme)}
        />
      )}
      <p class="note">{describeChart(answer)}</p>
    </>
  )
}

function describeChart({ recommendation: r, candidates, trials }: Answer): string {
  const served = candidates.filter((c) => c.capacityRps > 0)
  if (served.length === 0)
    return trials.length === 0 ? 'No trial has finished yet.' : 'No configuration meets this SLO.'
  const { better, close } = getOpenRivals(r)
  const open = [...better, ...close].map((c) => c.trial)
  return [
    r.provenance === 'simulated'
      ? 'Down and right is better. Outlined: simulated twice. Filled: simulated once. Hollow: unreliable. Crossed: failed its second simulated load test.'
      : 'Down and right is better. Outlined: confirmed. Filled: measured once. Hollow: unreliable. Crossed: failed confirmation.',
    'Points stand at the safe capacity; bars reach to the upper end of the 90 % interval. The line is the cheapest configuration of at least that capacity.',
    ...(open.length > 0
      ? [
          `Ringed in red, statistically tied with the recommended one: trial${open.length === 1 ? '' : 's'} ${open.join(', ')}.`,
        ]
      : []),
    ...(served.length < candidates.length
      ? [`${candidates.length - served.length} without a capacity are not shown.`]
      : []),
  ].join(' ')
}
