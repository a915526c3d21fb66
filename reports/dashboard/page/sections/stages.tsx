/** The stages of a pipeline: a diagram of their calls, and the share of time and price of each. */
import type { StageCall } from '../../../../trials/pipeline/pipeline.ts'
import { latency, percent, significant } from '../../../format.ts'
import { describePredictionError } from '../../../recommendation/prediction-error.ts'
import { describeRelaxedSlo } from '../../../recommendation/relaxed-slo.ts'
import type { StageReport } from '../../../recommendation/types.ts'
import { arrangeStages, type PlacedStage } from '../../charts/stage-layout.ts'
import type { Answer } from '../answer.ts'
import { Table } from '../elements.tsx'

export function Stages({ answer: { experiment, recommendation } }: { answer: Answer }) {
  const reports = recommendation.stages
  if (reports === undefined) return null
  const busiest = findBusiest(reports)
  return (
    <>
      <h2>Stages</h2>
      {experiment.stages && (
        <StagePicture placed={arrangeStages(experiment.stages)} busiest={busiest} />
      )}
      <Table
        caption="Stages of the pipeline"
        head={[
          'stage',
          'replicas',
          'each replica',
          'visits',
          'time per visit',
          'share of time',
          'busy',
          'share of price',
        ]}
        numeric={[1, 3, 4, 5, 6, 7]}
        rows={reports.map((stage) => [
          stage.stage === busiest ? <strong>{`${stage.stage} (busiest)`}</strong> : stage.stage,
          stage.replicas,
          <div class="stage-replica">{stage.label}</div>,
          stage.visits === undefined ? '–' : significant(stage.visits),
          stage.meanMs === undefined ? '–' : latency(stage.meanMs),
          formatShare(stage.timeShare),
          formatShare(stage.busyShare),
          formatShare(stage.priceShare),
        ])}
      />
      <p class="note">
        Visits and times are means for each request of the load; the time per visit excludes the
        calls that the stage makes. Busy is the utilisation of the busier resource of the stage. A
        dash (–) means that it was not measured.
        {recommendation.relaxedSlo && ` ${describeRelaxedSlo(recommendation.relaxedSlo)}.`}
        {recommendation.predictionError &&
          ` ${describePredictionError(recommendation.predictionError)}.`}
      </p>
    </>
  )
}

const formatShare = (share: number | undefined): string =>
  share === undefined ? '–' : percent(share)

const findBusiest = (stages: readonly StageReport[]): string | undefined =>
  stages.reduce<StageReport | undefined>(
    (busiest, stage) => ((stage.busyShare ?? 0) > (busiest?.busyShare ?? 0) ? stage : busiest),
    undefined,
  )?.stage

/** Sizes of the picture, px. */
const box = { width: 132, height: 36 }
const gap = { x: 76, y: 22 }

function StagePicture({
  placed,
  busiest,
}: {
  readonly placed: readonly PlacedStage[]
  readonly busiest: string | undefined
}) {
  const left = ({ column }: PlacedStage) => column * (box.width + gap.x)
  const top = ({ row }: PlacedStage) => row * (box.height + gap.y)
  const width = Math.max(...placed.map(left)) + box.width
  const height = Math.max(...placed.map(top)) + box.height
  const byName = new Map(placed.map((stage) => [stage.name, stage]))
  return (
    <svg
      class="stages"
      role="img"
      aria-label={describeCalls(placed)}
      viewBox={`-2 -2 ${width + 4} ${height + 4}`}
      width={width + 4}
      height={height + 4}
    >
      <defs>
        <marker
          id="call-arrow"
          viewBox="0 0 8 8"
          refX="8"
          refY="4"
          markerWidth="8"
          markerHeight="8"
          orient="auto"
        >
          <path d="M0,0 L8,4 L0,8 z" />
        </marker>
      </defs>
      {placed.flatMap((caller) =>
        caller.calls.map((call) => {
          const called = byName.get(call.stage)!
          const [x1, y1] = [left(caller) + box.width, top(caller) + box.height / 2]
          const [x2, y2] = [left(called), top(called) + box.height / 2]
          const middle = (x1 + x2) / 2
          return (
            <g>
              <path
                d={`M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}`}
                marker-end="url(#call-arrow)"
              />
              {call.ratio !== 1 && (
                <text x={x2 - 10} y={y2 - 7} text-anchor="end">
                  {formatRatio(call)}
                </text>
              )}
            </g>
          )
        }),
      )}
      {placed.map((stage) => (
        <g class={stage.name === busiest ? 'busiest' : undefined}>
          <rect x={left(stage)} y={top(stage)} width={box.width} height={box.height} rx="6" />
          <text
            x={left(stage) + box.width / 2}
            y={top(stage) + box.height / 2}
            text-anchor="middle"
            dominant-baseline="central"
          >
            {stage.name}
          </text>
        </g>
      ))}
    </svg>
  )
}

const formatRatio = ({ ratio }: StageCall): string =>
  ratio < 1 ? percent(ratio) : `× ${significant(ratio)}`

/** 'embed calls classify; classify calls ocr (30 %)' */
const describeCalls = (stages: readonly PlacedStage[]): string =>
  stages
    .filter(({ calls }) => calls.length > 0)
    .map(
      ({ name, calls }) =>
        `${name} calls ${calls.map((call) => (call.ratio === 1 ? call.stage : `${call.stage} (${formatRatio(call)})`)).join(', ')}`,
    )
    .join('; ')
