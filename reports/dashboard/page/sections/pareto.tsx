/** The Pareto chart, and on it the SLO as a line that can be dragged. */
import { useRef, useState } from 'preact/hooks'
import { money, rate, sloValue } from '../../../format.ts'
import { conclusions, type Recommendation } from '../../../recommendation/types.ts'
import { listVerdictLines } from '../../../recommendation/verdict-lines.ts'
import {
  createLatencyAxis,
  createParetoChart,
  type LatencyAxis,
  type Throughput,
} from '../../charts/pareto-chart.ts'
import type { Answer } from '../answer.ts'
import { TrialChart } from '../chart.tsx'
import { Switch } from '../elements.tsx'
import { SloHandle } from './slo-handle.tsx'

const maxCurves = 14

export function Pareto({ answer }: { answer: Answer }) {
  const { recommendation: r, candidates, trials, whatIf, devices, theme, ranker } = answer
  const [throughput, choose] = useState<Throughput>('per-dollar')
  const isHeld = useRef(false)
  const axis = useRef<LatencyAxis>(null)
  const latencies = (isHeld.current && axis.current) || createLatencyAxis(trials, r.slo)
  axis.current = latencies
  const drawn = candidates.filter((c) => c.capacityRps > 0).slice(0, maxCurves)
  return (
    <>
      <header>
        <h2>Throughput against latency</h2>
        <Switch
          legend="Throughput"
          name="throughput"
          choices={[
            ['per-dollar', 'per dollar'],
            ['per-second', 'per second'],
          ]}
          value={throughput}
          choose={choose}
        />
      </header>
      <Winner recommendation={r} />
      <TrialChart
        answer={answer}
        name="pareto"
        altText={describePareto(r, candidates.length)}
        size="tall"
        createOption={(isStatic) => {
          const curves = ranker.addMeasurements(trials, drawn, whatIf)
          return createParetoChart(
            { recommendation: r, trials, latencies, curves, throughput, devices, isStatic },
            theme,
          )
        }}
      >
        {(plot) => <SloHandle plot={plot} axis={axis} isHeld={isHeld} />}
      </TrialChart>
      <p class="note">
        Up and left is better. Points: configurations at their safe capacity, with 90 % intervals of
        throughput and, where measured, 95 % intervals of latency. Bold steps: Pareto front. Thin
        lines: load curves; hollow points on them are modelled.
        <span class="screen-only"> Drag the SLO line, or click a point for its trial.</span>
      </p>
    </>
  )
}

/** The recommended configuration and its figures, beside the line that is dragged. */
function Winner({ recommendation }: { recommendation: Recommendation }) {
  const { heading, subject, figures } = listVerdictLines(recommendation)
  return (
    <p class="winner" aria-live="polite">
      <strong>{heading ? `${heading}: ${subject}` : subject}</strong>
      {figures !== undefined && ` ${figures}`}
    </p>
  )
}

function describePareto(r: Recommendation, configurations: number): string {
  const best = r.best
    ? `Recommended: ${r.best.label}, ${rate(r.best.capacityRps)}.`
    : `${conclusions[r.conclusion]}.`
  const front = r.front.map(
    (c) =>
      `${sloValue(r.slo, c.sloMsAtCapacity)}: ${rate(c.capacityRps)} for ${money(c.pricePerHour)} per hour`,
  )
  return `Pareto chart of ${configurations} configurations. ${best} Front: ${front.join('; ')}`
}
