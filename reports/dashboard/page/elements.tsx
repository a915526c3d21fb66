/** Small components that many sections use. */
import type { ComponentChildren } from 'preact'

/** A table; columns in `numeric` are right-aligned. */
export function Table({
  head,
  rows,
  numeric = [],
  caption,
}: {
  readonly head: readonly string[]
  readonly rows: readonly (readonly ComponentChildren[])[]
  readonly numeric?: readonly number[]
  readonly caption: string
}) {
  const alignment = (i: number) => (numeric.includes(i) ? 'n' : undefined)
  return (
    <div class="wide" tabIndex={0} role="group" aria-label={caption}>
      <table>
        <caption class="unseen">{caption}</caption>
        <thead>
          <tr>
            {head.map((text, i) => (
              <th class={alignment(i)} scope="col">
                {text}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>
              {row.map((cell, i) => (
                <td class={alignment(i)}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** An unknown value is left out. */
export type Fact = readonly [name: string, value: string | false | undefined, note?: string]

/** Names and their values. */
export const Facts = ({ class: name, facts }: { class: string; facts: readonly Fact[] }) => (
  <dl class={name}>
    {facts.map(
      ([title, value, note]) =>
        value !== undefined &&
        value !== false && (
          <div>
            <dt>{title}</dt>
            <dd>
              {value}
              {note && <small>{note}</small>}
            </dd>
          </div>
        ),
    )}
  </dl>
)

/** A word in a frame, with a button that takes it off where that can be done. */
export const Tag = ({
  text,
  label,
  remove,
}: {
  text: string
  label?: string
  remove?: false | (() => void)
}) => (
  <span class="tag">
    {text}
    {remove && (
      <button class="quiet" type="button" aria-label={label} onClick={remove}>
        ×
      </button>
    )}
  </span>
)

/** A labelled form field. */
export const Field = ({
  label,
  unit,
  children,
}: {
  label: string
  unit?: string
  children: ComponentChildren
}) => (
  // biome-ignore lint/a11y/noLabelWithoutControl: the children are the control
  <label class="field">
    <span>{label}</span>
    <span class="input">
      {children}
      {unit !== undefined && <small>{unit}</small>}
    </span>
  </label>
)

/** One of several choices, as radio buttons. */
export const Switch = <T extends string>({
  legend,
  name,
  choices,
  value,
  choose,
}: {
  legend: string
  name: string
  choices: readonly (readonly [value: NoInfer<T>, text: string])[]
  value: T
  choose(value: NoInfer<T>): void
}) => (
  <fieldset class="switch">
    <legend class="unseen">{legend}</legend>
    {choices.map(([each, text]) => (
      <label key={each}>
        <input
          type="radio"
          name={name}
          value={each}
          checked={each === value}
          onChange={() => choose(each)}
        />
        {text}
      </label>
    ))}
  </fieldset>
)

/** Saves text as a file. */
export function download(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }))
  Object.assign(document.createElement('a'), { href: url, download: name }).click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}
