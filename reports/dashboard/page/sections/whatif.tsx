/**
 * Form of the what-if settings: SLO, objective, demand, minimum quality, prices. Every change ranks
 * the trials again.
 */
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
 * One number field for each limit of the SLO. With several limits, each also has a slider, because
 * the chart shows only one limit line to drag.
 */
function Limits({ answer: { whatIf, experiment } }: { answer: Answer }) {
  const app = useApp()
  const { slo } = whatIf
  const limits = resolveLimits(slo)
  const experimentLimits = resolveLimits(experiment.slo)
  return (
    <div class="limits">
      {limits.map((limit, index) => {
        const title = slo.limits || slo.metric ? limitTitle(limit) : 'SLO'
        const applyLimit = (limitMs: number, dragging = false) =>
          app.whatIf &&
          app.setWhatIf({ slo: replaceLimit(app.whatIf.slo, index, limitMs) }, dragging)
        return (
          <div key={index}>
            <NumberField
              label={title}
              unit="ms"
              id={index === 0 ? 'slo-limit' : `slo-limit-${index}`}
              min={0.1}
              value={limit.limitMs}
              onValue={applyLimit}
            />
            {limits.length > 1 && (
              <LimitSlider
                id={`slo-slider-${index}`}
                title={title}
                limitMs={limit.limitMs}
                experimentLimitMs={experimentLimits[index]?.limitMs ?? limit.limitMs}
                onLimit={(limitMs) => applyLimit(limitMs, true)}
              />
            )}
          </div>
        )
      })}
    </div>
  )
}

/**
 * Steps of a slider per decade. Its scale is logarithmic, from a tenth of the experiment's limit to
 * ten times that limit.
 */
const stepsPerDecade = 500

function LimitSlider({
  id,
  title,
  limitMs,
  experimentLimitMs,
  onLimit,
}: {
  id: string
  title: string
  limitMs: number
  experimentLimitMs: number
  onLimit(limitMs: number): void
}) {
  const slider = useRef<HTMLInputElement>(null)
  // Do not move the slider while the user drags it: its position is newer than `limitMs`.
  useLayoutEffect(() => {
    if (document.activeElement !== slider.current)
      slider.current!.value = String(
        Math.round(stepsPerDecade * Math.log10(limitMs / experimentLimitMs)),
      )
  })
  return (
    <input
      ref={slider}
      type="range"
      min={-stepsPerDecade}
      max={stepsPerDecade}
      step={1}
      id={id}
      aria-label={`Limit of ${title}`}
      aria-valuetext={`${Number(limitMs.toPrecision(4))} milliseconds`}
      onInput={({ currentTarget }) =>
        onLimit(
          Number(
            (experimentLimitMs * 10 ** (currentTarget.valueAsNumber / stepsPerDecade)).toPrecision(
              3,
            ),
          ),
        )
      }
    />
  )
}

/** Selects the percentile of the SLO: a common one, or that of the experiment. */
function Percentile({ answer: { experiment, whatIf } }: { answer: Answer }) {
  const app = useApp()
  const choices = [...new Set([...percentiles, experiment.slo.percentile])].sort()
  return (
    <Field label="at">
      <select
        value={whatIf.slo.percentile}
        onChange={({ currentTarget }) =>
          app.whatIf &&
          app.setWhatIf({ slo: { ...app.whatIf.slo, percentile: Number(currentTarget.value) } })
        }
      >
        {choices.map((q) => (
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
  /** Objective that the user chose but that needs a demand first. */
  const [pendingKind, setPendingKind] = useState<ObjectiveKind>()
  const kind = pendingKind ?? objective.kind
  const maxPrice = getPriceBound(objective)
  const metric = getMetric(objective)
  const metrics = [
    ...new Set([...(metric === undefined ? [] : [metric]), ...listMetricNames(answer.trials)]),
  ].sort()

  function applyChange(change: ObjectiveChange): void {
    const demandRps = change.demandRps ?? (planning.isAssumed ? undefined : planning.demandRps)
    const headroom = change.headroom ?? planning.headroom
    const nextKind = change.kind ?? kind
    if (demandRps === undefined && getRequiredInput(nextKind) === 'demand') {
      setPendingKind(nextKind)
      demandField.current?.focus()
      return
    }
    setPendingKind(undefined)
    if (demandRps !== undefined) app.setPlanning({ demandRps, headroom })
    app.setWhatIf({
      objective: createObjective(nextKind, {
        demandRps: demandRps ?? planning.demandRps,
        headroom,
        maxPricePerHour:
          change.maxPricePerHour ?? maxPrice ?? recommendation.best?.pricePerHour ?? 1,
        metric: change.metric ?? metric ?? metrics[0],
      }),
    })
  }
  const isDemandUnused = ['nothing', 'metric'].includes(getRequiredInput(kind))
  return (
    <>
      <Field label="Find the">
        <select
          value={kind}
          onChange={({ currentTarget }) =>
            applyChange({ kind: currentTarget.value as ObjectiveKind })
          }
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
          applyChange({ demandRps, kind: isDemandUnused ? defaultObjectiveKind.withDemand : kind })
        }
      />
      <NumberField
        label="Headroom"
        unit="%"
        id="headroom"
        min={0}
        max={99}
        value={Math.round(planning.headroom * 1000) / 10}
        onValue={(percent) => applyChange({ headroom: percent / 100 })}
      />
      {maxPrice !== undefined && (
        <NumberField
          label="At most"
          unit="$ / h"
          id="max-price"
          min={0.001}
          value={maxPrice}
          onValue={(maxPricePerHour) => applyChange({ maxPricePerHour })}
        />
      )}
      {metric !== undefined && (
        <Field label="Metric">
          <select
            id="metric"
            value={metric}
            onChange={({ currentTarget }) => applyChange({ metric: currentTarget.value })}
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

/** Lists the metrics that trials report. Cached, because a drag renders 60 times a second. */
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
        id="min-quality"
        value={bound ?? ''}
        onChange={({ currentTarget: { value } }) =>
          app.setWhatIf({ minQuality: value === '' ? undefined : Number(value) })
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
              app.whatIf && app.setWhatIf({ prices: editPrice(app.whatIf.prices, name, edited) })
            }
          />
        ))}
      </div>
    </details>
  )
}

/**
 * A labelled number field. Calls `onValue` whenever the typed text is a number within the bounds.
 */
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
  /** Smallest valid number. */
  min: number
  max?: number
  optional?: boolean
  field?: { current: HTMLInputElement | null }
  value: number | undefined
  onValue(value: number): void
}) {
  const ownField = useRef<HTMLInputElement>(null)
  const input = field ?? ownField
  // Do not overwrite the field while the user types in it.
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
