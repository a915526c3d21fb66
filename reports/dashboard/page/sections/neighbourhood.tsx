/**
 * Neighbourhood of the recommended configuration: all configurations in parallel coordinates, and
 * the predicted capacity along one parameter and over two.
 */
import type { Configuration } from '../../../../search/types.ts'
import { rate } from '../../../format.ts'
import {
  createParallelOption,
  createSliceOption,
  createSurfaceOption,
  maxLines,
} from '../../charts/neighbourhood-chart.ts'
import { listVarying } from '../../data/importance.ts'
import type { Neighbourhood } from '../../data/neighbourhood.ts'
import type { Answer } from '../answer.ts'
import { Chart, TrialChart } from '../chart.tsx'

/**
 * Finds the centre of slices and surface: the recommended configuration, else the one of highest
 * capacity.
 */
export const findCentre = ({ recommendation: { best }, candidates }: Answer): Configuration =>
  (best ?? [...candidates].sort((a, b) => b.capacityRps - a.capacityRps)[0])?.configuration ?? {}

/** Parameters of the surface that the user selected; empty until then. */
interface PairChoice {
  readonly pair: readonly string[]
  choose(pair: readonly string[]): void
}

export const NeighbourhoodOfBest = ({
  answer,
  neighbourhood,
  ...choice
}: PairChoice & { answer: Answer; neighbourhood?: Neighbourhood }) => (
  <div>
    <Parallel answer={answer} />
    {neighbourhood && (
      <div>
        <h3>One parameter at a time, all others as recommended</h3>
        <Slices neighbourhood={neighbourhood} answer={answer} />
        <p class="note">
          Capacity predicted by the same Gaussian process when one parameter changes, with 90 %
          intervals. Diamonds: measured. In brackets: the recommended value.
        </p>
        {neighbourhood.surface && (
          <Surface surface={neighbourhood.surface} answer={answer} {...choice} />
        )}
      </div>
    )}
  </div>
)

const Slices = ({
  neighbourhood,
  answer: { theme },
}: {
  neighbourhood: Neighbourhood
  answer: Answer
}) => (
  <div class="effects">
    {neighbourhood.slices.map((slice) => (
      <Chart
        key={slice.parameter}
        name={`slice-${slice.parameter}`}
        altText={`Capacity along ${slice.parameter}: ${slice.values.map(({ value, median }) => `${value}: ${rate(median)}`).join(', ')}`}
        size="small"
        createOption={() => createSliceOption(slice, theme)}
      />
    ))}
  </div>
)

function Surface({
  surface,
  answer: { experiment, theme },
  pair,
  choose,
}: PairChoice & { surface: NonNullable<Neighbourhood['surface']>; answer: Answer }) {
  const { across, up, cells } = surface
  const names = listVarying(experiment.parameters).map(({ parameter }) => parameter.name)
  // A selection made while the worker computes stays selected; its surface follows.
  const selectedPair = pair.length > 0 ? pair : [across.parameter, up.parameter]
  const highest = cells
    .flatMap((row, v) =>
      row.map(({ median }, u) => ({ median, at: `${across.values[u]} and ${up.values[v]}` })),
    )
    .sort((a, b) => b.median - a.median)[0]!
  return (
    <div>
      <header>
        <h3>Over two parameters</h3>
        <span class="switch">
          {['across', 'up'].map((direction, i) => (
            <select
              key={direction}
              aria-label={`Parameter ${direction}`}
              value={selectedPair[i]}
              onChange={({ currentTarget }) => choose(selectedPair.with(i, currentTarget.value))}
            >
              {names.map((name) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </select>
          ))}
        </span>
      </header>
      <Chart
        name="surface"
        altText={`Capacity over ${across.parameter} and ${up.parameter}: highest at ${highest.at}, ${rate(highest.median)}`}
        createOption={() => createSurfaceOption(surface, theme)}
      />
      <p class="note">
        All other parameters are as recommended. Darker cells have more capacity, smaller cells are
        less certain, and framed cells were measured.
      </p>
    </div>
  )
}

function Parallel({ answer }: { answer: Answer }) {
  const { experiment, candidates, recommendation, whatIf, theme } = answer
  const { best } = recommendation
  const { parameters } = experiment
  const { objective } = whatIf
  const served = candidates.filter(({ capacityRps }) => capacityRps > 0)
  const omissionNote = served.length > maxLines ? ` ${maxLines} of ${served.length} are shown.` : ''
  return (
    <div>
      <h3>Every configuration</h3>
      <TrialChart
        answer={answer}
        name="parallel"
        altText={`${served.length} configurations that served, one line each over parameters, capacity, price and cost${best ? `; recommended: ${best.label}` : ''}`}
        createOption={() =>
          createParallelOption({ parameters, candidates: served, best, objective }, theme)
        }
      />
      <p class="note">
        {`Each line is a configuration that served: solid if it meets the SLO, dashed if not, thick if recommended.${omissionNote} Drag along an axis to filter the lines; click next to the axis to clear the filter.`}
      </p>
    </div>
  )
}
