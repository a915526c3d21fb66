/**
 * Around the best: every configuration across its parameters, the capacity along each of them, and
 * over any two.
 */
import type { Configuration } from '../../../../search/types.ts'
import { rate } from '../../../format.ts'
import {
  createParallelOption,
  createSurfaceOption,
  maxLines,
  sliceOption,
} from '../../charts/neighbourhood-chart.ts'
import { listVarying } from '../../data/importance.ts'
import type { Neighbourhood } from '../../data/neighbourhood.ts'
import type { Answer } from '../answer.ts'
import { Chart, TrialChart } from '../chart.tsx'

/** What slices and surfaces go through: what is recommended, else what serves most. */
export const findCentre = ({ recommendation: { best }, candidates }: Answer): Configuration =>
  (best ?? [...candidates].sort((a, b) => b.capacityRps - a.capacityRps)[0])?.configuration ?? {}

/** Parameters of the surface that the reader chose; none until then. */
interface PairChoice {
  readonly pair: readonly string[]
  choose(pair: readonly string[]): void
}

export const AroundTheBest = ({
  answer,
  around,
  ...choice
}: PairChoice & { answer: Answer; around?: Neighbourhood }) => (
  <div>
    <Parallel answer={answer} />
    {around && (
      <div>
        <h3>One parameter at a time, all others as recommended</h3>
        <Slices around={around} answer={answer} />
        <p class="note">
          Capacity predicted by the same Gaussian process when one parameter changes, with 90 %
          intervals. Diamonds: measured. In brackets: the recommended value.
        </p>
        {around.surface && <Surface surface={around.surface} answer={answer} {...choice} />}
      </div>
    )}
  </div>
)

const Slices = ({ around, answer: { theme } }: { around: Neighbourhood; answer: Answer }) => (
  <div class="effects">
    {around.slices.map((slice) => (
      <Chart
        key={slice.parameter}
        name={`slice-${slice.parameter}`}
        words={`Capacity along ${slice.parameter}: ${slice.values.map(({ value, median }) => `${value}: ${rate(median)}`).join(', ')}`}
        size="small"
        make={() => sliceOption(slice, theme)}
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
  // What was chosen while the worker computed stays chosen; its own answer follows.
  const drawn = pair.length > 0 ? pair : [across.parameter, up.parameter]
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
              value={drawn[i]}
              onChange={({ currentTarget }) => choose(drawn.with(i, currentTarget.value))}
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
        words={`Capacity over ${across.parameter} and ${up.parameter}: highest at ${highest.at}, ${rate(highest.median)}`}
        make={() => createSurfaceOption(surface, theme)}
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
  const left = served.length > maxLines ? ` ${maxLines} of ${served.length} are shown.` : ''
  return (
    <div>
      <h3>Every configuration</h3>
      <TrialChart
        answer={answer}
        name="parallel"
        words={`${served.length} configurations that served, one line each over parameters, capacity, price and cost${best ? `; recommended: ${best.label}` : ''}`}
        make={() =>
          createParallelOption({ parameters, candidates: served, best, objective }, theme)
        }
      />
      <p class="note">
        {`Each line is a configuration that served: solid if it meets the SLO, dashed if not, thick if recommended.${left} Drag along an axis to filter the lines; click next to the axis to clear the filter.`}
      </p>
    </div>
  )
}
