/** The question: SLO, objective, demand and prices, all editable; every change re-ranks at once. */
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { limitTitle, replaceLimit, resolveLimits } from '../../../../profiler/model/slo.ts'
import {
  createObjective,
  defaultObjectiveKind,
  getMetric,
  getObjectiveWords,
  getPriceBound,
  getRequiredInput,
  type ObjectiveKind,
  objectiveKinds,
} from '../../../../search/objective.ts'
import { findLastMetrics } from '../../../recommendation/read-metrics.ts'
import { editPrice } from '../../data/address.ts'
import type { Answer } from '../answer.ts'
import { Field } from '../elements.tsx'
import { useApp } from '../section.tsx'

const percentiles = [0.5, 0.9, 0.95, 0.99] as const

export function WhatIf({ answer }: { answer: Answer }) {
  const app = useApp()
  return (
    <>
      <Limits answer={answer} />
      <Percentile answer={answer} />
      <ObjectiveFields answer={answer} />
      <MinQuality answer={answer} />
      <Prices answer={answer} />
      <button type="button" id="reset" disabled={answer.isUnchanged} onClick={() => app.reset()}>
        Reset
      </button>
    </>
  )
}

/**
 * A number for each limit of the SLO, and of several limits a slider for each, for the chart has
 * but one line.
 */
function Limits({ answer: { whatIf, experiment } }: { answer: Answer }) {
  const app = useApp()
  const { slo } = whatIf
  const limits = resolveLimits(slo)
  const experimentLimits = resolveLimits(experiment.slo)
  return (
    <div class="limits">
      {limits.map((limit, place) => {
        const title = slo.limits || slo.metric ? limitTitle(limit) : 'SLO'
        const ask = (limitMs: number, dragging = false) =>
          app.whatIf && app.ask({ slo: replaceLimit(app.whatIf.slo, place, limitMs) }, dragging)
        return (
          <div key={place}>
            <NumberField
              label={title}
              unit="ms"
              id={place === 0 ? 'slo-limit' : `slo-limit-${place}`}
              min={0.1}
              value={limit.limitMs}
              onValue={ask}
            />
            {limits.length > 1 && (
              <LimitSlider
                id={`slo-slider-${place}`}
                title={title}
                limitMs={limit.limitMs}
                ownMs={experimentLimits[place]?.limitMs ?? limit.limitMs}
                slide={(limitMs) => ask(limitMs, true)}
              />
            )}
          </div>
        )
      })}
    </div>
  )
}

/** Ends of a slider: a tenth of the experiment's own limit and ten times it, in even ratios. */
const ends = 500

function LimitSlider({
  id,
  title,
  limitMs,
  ownMs,
  slide,
}: {
  id: string
  title: string
  limitMs: number
  ownMs: number
  slide(limitMs: number): void
}) {
  const slider = useRef<HTMLInputElement>(null)
  // A slider that is being dragged is ahead of the limit that is shown.
  useLayoutEffect(() => {
    if (document.activeElement !== slider.current)
      slider.current!.value = String(Math.round(ends * Math.log10(limitMs / ownMs)))
  })
  return (
    <input
      ref={slider}
      type="range"
      min={-ends}
      max={ends}
      step={1}
      id={id}
      aria-label={`Limit of ${title}`}
      aria-valuetext={`${Number(limitMs.toPrecision(4))} milliseconds`}
      onInput={({ currentTarget }) =>
        slide(Number((ownMs * 10 ** (currentTarget.valueAsNumber / ends)).toPrecision(3)))
      }
    />
  )
}

/** The usual ones and the experiment's own. */
function Percentile({ answer: { experiment, whatIf } }: { answer: Answer }) {
  const app = useApp()
  const known = [...new Set([...percentiles, experiment.slo.percentile])].sort()
  return (
    <Field label="at">
      <select
        value={whatIf.slo.percentile}
        onChange={({ currentTarget }) =>
          app.whatIf &&
          app.ask({ slo: { ...app.whatIf.slo, percentile: Number(currentTarget.value) } })
        }
      >
        {known.map((q) => (
          <option key={q} value={q}>
            {`p${Number((q * 100).toFixed(3))}`}
          </option>
        ))}
      </select>
    </Field>
  )
}

interface ObjectiveChange {
  readonly kind?: ObjectiveKind
  readonly demandRps?: number
  readonly headroom?: number
  readonly maxPricePerHour?: number
  readonly metric?: string
}

/** Input fields of the objective, with its demand, bound or metric. */
function ObjectiveFields({ answer }: { answer: Answer }) {
  const app = useApp()
  const { planning, recommendation } = answer
  const { objective } = answer.whatIf
  const demandField = useRef<HTMLInputElement>(null)
  /** A choice that waits for its demand. */
  const [pending, setPending] = useState<ObjectiveKind>()
  const kind = pending ?? objective.kind
  const maxPrice = getPriceBound(objective)
  const metric = getMetric(objective)
  const metrics = [
    ...new Set([...(metric === undefined ? [] : [metric]), ...listMetricNames(answer.trials)]),
  ].sort()

  function change(to: ObjectiveChange): void {
    const demandRps = to.demandRps ?? (planning.isAssumed ? undefined : planning.demandRps)
    const headroom = to.headroom ?? planning.headroom
    const next = to.kind ?? kind
    if (demandRps === undefined && getRequiredInput(next) === 'demand') {
      setPending(next)
      demandField.current?.focus()
      return
    }
    setPending(undefined)
    if (demandRps !== undefined) app.plan({ demandRps, headroom })
    app.ask({
      objective: createObjective(next, {
        demandRps: demandRps ?? planning.demandRps,
        headroom,
        maxPricePerHour: to.maxPricePerHour ?? maxPrice ?? recommendation.best?.pricePerHour ?? 1,
        metric: to.metric ?? metric ?? metrics[0],
      }),
    })
  }
  const isDemandUnused = ['nothing', 'metric'].includes(getRequiredInput(kind))
  return (
    <>
      <Field label="Find the">
        <select
          value={kind}
          onChange={({ currentTarget }) => change({ kind: currentTarget.value as ObjectiveKind })}
        >
          {objectiveKinds.map((each) => (
            <option
              key={each}
              value={each}
              hidden={metrics.length === 0 && getRequiredInput(each) === 'metric'}
            >
              {getObjectiveWords(each).choice}
            </option>
          ))}
        </select>
      </Field>
      <NumberField
        label="Demand"
        unit="req/s"
        id="demand"
        min={0.001}
        optional
        field={demandField}
        value={planning.isAssumed ? undefined : planning.demandRps}
        onValue={(demandRps) =>
          change({ demandRps, kind: isDemandUnused ? defaultObjectiveKind.withDemand : kind })
        }
      />
      <NumberField
        label="Headroom"
        unit="%"
        id="headroom"
        min={0}
        max={99}
        value={Math.round(planning.headroom * 1000) / 10}
        onValue={(percent) => change({ headroom: percent / 100 })}
      />
      {maxPrice !== undefined && (
        <NumberField
          label="At most"
          unit="$ / h"
          id="most-price"
          min={0.001}
          value={maxPrice}
          onValue={(maxPricePerHour) => change({ maxPricePerHour })}
        />
      )}
      {metric !== undefined && (
        <Field label="Metric">
          <select
            id="metric"
            value={metric}
            onChange={({ currentTarget }) => change({ metric: currentTarget.value })}
          >
            {metrics.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </Field>
      )}
    </>
  )
}

let lastListing: { last?: Answer['trials'][number]; names: readonly string[] } = { names: [] }

/**
 * Lists the metrics that trials report; cached, because a drag asks sixty times a second.
 */
function listMetricNames(trials: Answer['trials']): readonly string[] {
  const last = trials.at(-1)
  if (lastListing.last !== last)
    lastListing = {
      last,
      names: trials.flatMap((trial) => Object.keys(findLastMetrics([trial]) ?? {})),
    }
  return lastListing.names
}

function MinQuality({ answer: { experiment, whatIf } }: { answer: Answer }) {
  const app = useApp()
  const { minQuality } = whatIf
  const qualities = [...new Set(Object.values(experiment.qualities ?? {}))].sort((a, b) => b - a)
  if (qualities.length < 2) return null
  const bound = qualities.filter((each) => minQuality !== undefined && each >= minQuality).at(-1)
  return (
    <Field label="Quality at least">
      <select
        id="least-quality"
        value={bound ?? ''}
        onChange={({ currentTarget: { value } }) =>
          app.ask({ minQuality: value === '' ? undefined : Number(value) })
        }
      >
        <option value="">any</option>
        {qualities.map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
    </Field>
  )
}

function Prices({ answer: { whatIf, devices } }: { answer: Answer }) {
  const app = useApp()
  const { prices } = whatIf
  const rows = [
    { name: 'vCPU', ...prices.vcpu },
    { name: 'GiB', label: 'GiB memory', ...prices.memoryGiB },
    ...(prices.instances?.filter(({ gpu }) => devices.includes(gpu)) ??
      devices.flatMap((name) => (prices.gpus[name] ? [{ name, ...prices.gpus[name] }] : []))),
  ] as readonly { name: string; label?: string; perHour: number; source: string }[]
  return (
    <details>
      <summary>Prices</summary>
      <div class="prices">
        <p>{`${prices.name}, ${prices.currency}`}</p>
        {rows.map(({ name, label = name, perHour, source }) => (
          <NumberField
            key={name}
            label={label}
            unit="$ / h"
            id={`price-${name}`}
            title={source}
            min={0}
            value={perHour}
            onValue={(edited) =>
              app.whatIf && app.ask({ prices: editPrice(app.whatIf.prices, name, edited) })
            }
          />
        ))}
      </div>
    </details>
  )
}

/** A number in a labelled field. It asks with every number within its bounds, as it is typed. */
function NumberField({
  label,
  unit,
  id,
  title,
  min,
  max,
  optional = false,
  field,
  value,
  onValue,
}: {
  label: string
  unit: string
  id: string
  title?: string
  /** 0 is allowed, any other bound is exceeded or met. */
  min: number
  max?: number
  optional?: boolean
  field?: { current: HTMLInputElement | null }
  value: number | undefined
  onValue(value: number): void
}) {
  const ownField = useRef<HTMLInputElement>(null)
  const input = field ?? ownField
  // What someone is typing stays.
  useLayoutEffect(() => {
    if (document.activeElement !== input.current)
      input.current!.value = value === undefined ? '' : String(Number(value.toPrecision(6)))
  })
  return (
    <Field label={label} unit={unit}>
      <input
        ref={input}
        type="number"
        id={id}
        title={title}
        min={min}
        max={max}
        step="any"
        inputmode="decimal"
        required={!optional}
        placeholder={optional ? 'none' : undefined}
        onInput={({ currentTarget }) => {
          const typed = currentTarget.valueAsNumber
          if (typed >= min && (max === undefined || typed <= max) && Number.isFinite(typed))
            onValue(typed)
        }}
      />
    </Field>
  )
}
