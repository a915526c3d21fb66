/** Load curves of the best configurations. */
import { rate } from '../../../format.ts'
import { describeStatus } from '../../../recommendation/describe-status.ts'
import { formatCapacity } from '../../../recommendation/words.ts'
import { createCurvesOption } from '../../charts/curves-chart.ts'
import { findKnee } from '../../data/analysis.ts'
import type { Answer } from '../answer.ts'
import { TrialChart } from '../chart.tsx'

const maxDrawn = 4

export function Curves({ answer }: { answer: Answer }) {
  const { trials, candidates, whatIf, ranker, recommendation, theme } = answer
  const served = candidates.filter((c) => c.capacityRps > 0).slice(0, maxDrawn)
  const measured = ranker.addMeasurements(trials, served, whatIf)
  if (measured.length === 0) return null
  const words = measured.map(
    ({ candidate: c }) =>
      `trial ${c.trial}, ${describeStatus(c.status, recommendation.provenance).name}: ${formatCapacity(c)}`,
  )
  return (
    <>
      <h2>Load curves of the best</h2>
      <div class="columns">
        <TrialChart
          answer={answer}
          name="load-curves"
          altText={`Load curves of ${words.join('; ')}`}
          createOption={() => createCurvesOption(measured, whatIf.slo, theme)}
        />
        <div>
          <ul class="key">
            {measured.map(({ candidate: c, curve }) => {
              const knee = curve && findKnee(curve)
              return (
                <li key={c.trial}>
                  <strong>trial {c.trial}</strong>
                  {` ${c.label}: ${formatCapacity(c)}${knee ? `, knee at ${rate(knee.rateRps)}` : ''}`}
                </li>
              )
            })}
          </ul>
          <p class="note">
            Open-loop load: requests follow a fixed schedule, independent of responses, so queueing
            is visible. A hollow point marks where the model of the server reaches the SLO; all
            other points are measured windows. The ringed point (knee) is where latency is twice
            that without load.
          </p>
        </div>
      </div>
    </>
  )
}
