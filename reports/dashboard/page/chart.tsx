/** Chart components: a plot with its name, a text alternative, and a button to save it. */
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { money, significant, sloName, sloValue } from '../../format.ts'
import { estimateText, formatCapacity } from '../../recommendation/words.ts'
import { getDevice } from '../data/ranking.ts'
import type { Answer } from './answer.ts'
import { download } from './elements.tsx'
import { type ChartItem, type ChartSource, Plot, type Size } from './plot.ts'
import { useApp } from './section.tsx'

interface ChartProps extends ChartSource {
  /** Name of the exported file, without extension. */
  readonly name: string
  /** Text alternative for screen readers. */
  readonly altText: string
  readonly size?: Size
  /** Elements on top of the plot. */
  readonly children?: (plot: Plot) => ComponentChildren
}

export function Chart({
  name,
  altText,
  size = 'middle',
  createOption,
  renderTooltip,
  onClick,
  children,
}: ChartProps) {
  const figure = useRef<HTMLElement>(null)
  const [plot, setPlot] = useState<Plot>()
  useLayoutEffect(() => {
    const made = new Plot(figure.current!, size)
    setPlot(made)
    return () => made.dispose()
  }, [size])
  useLayoutEffect(() => plot?.show({ createOption, renderTooltip, onClick }))
  const save = () => plot && download(`${name}.svg`, 'image/svg+xml', plot.renderSvg())
  return (
    <figure ref={figure} class={`chart ${size}`} role="group" aria-label={altText}>
      <div class="canvas" />
      <div class="paper" aria-hidden="true" />
      <button
        class="quiet save"
        type="button"
        aria-label={`Save ${name} as SVG`}
        title="Save as SVG"
        onClick={save}
      >
        SVG
      </button>
      {plot && children?.(plot)}
    </figure>
  )
}

/** A chart of trials: the tooltip describes the trial under the mouse, and a click opens it. */
export function TrialChart({
  answer,
  ...chart
}: Omit<ChartProps, 'renderTooltip' | 'onClick'> & { readonly answer: Answer }) {
  const app = useApp()
  const findTrial = ({ value }: ChartItem) =>
    value.length > 2 ? answer.trials.find((t) => t.number === value.at(-1)) : undefined
  return (
    <Chart
      {...chart}
      renderTooltip={(item) => {
        const trial = findTrial(item)
        return trial && <TrialCard answer={answer} trial={trial} />
      }}
      onClick={(item) => {
        const trial = findTrial(item)
        if (trial) app.openTrial(trial.number)
      }}
    />
  )
}

function TrialCard({ answer, trial }: { answer: Answer; trial: Answer['trials'][number] }) {
  const c = answer.byTrial.get(trial.number)
  const lines: readonly (readonly [name: string, text: string | false | undefined])[] = c
    ? [
        ['safe capacity', c.capacityRps > 0 || c.bound === 'upper' ? formatCapacity(c) : 'none'],
        ['estimate [90 %]', c.estimateRps !== undefined && estimateText(c)],
        [sloName(answer.whatIf.slo), sloValue(answer.whatIf.slo, c.sloMsAtCapacity)],
        ['quality', c.quality?.toString()],
        ['output', c.tokens && `${significant(c.tokens.outputTokensPerSecond)} tokens/s`],
        ['price', `${money(c.pricePerHour)} / h`],
        ['per million', c.capacityRps > 0 && money(c.pricePerMillionRequests)],
        ['per million output tokens', c.tokens && money(c.tokens.pricePerMillionOutputTokens)],
        ['why not', c.reason],
      ]
    : [
        ['state', trial.purpose ?? trial.state],
        ['took', `${significant(trial.seconds)} s`],
      ]
  return (
    <div class="card">
      <strong>Trial {trial.number}</strong>
      <span>{c?.label ?? answer.ranker.label(trial.configuration)}</span>
      <dl>
        {lines
          .filter(([, text]) => text)
          .map(([name, text]) => (
            <>
              <dt>{name}</dt>
              <dd>{text}</dd>
            </>
          ))}
      </dl>
      <small>{getDevice(trial.configuration)}</small>
    </div>
  )
}
