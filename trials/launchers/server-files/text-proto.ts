/** Protocol buffer text format, as far as servers' configuration files go. */

/**
 * Numbers, booleans and enum names stand bare; text is quoted. Lists of messages or values repeat
 * the field. Undefined fields are left out.
 */
export type ProtoValue =
  | number
  | boolean
  | Text
  | Enum
  | ProtoMessage
  | readonly (number | Text | ProtoMessage)[]
  | undefined
export type ProtoMessage = { readonly [field: string]: ProtoValue }

/** Text of a string field. */
export class Text {
  constructor(readonly value: string) {}
}
/** An enum's name, such as KIND_GPU. */
export class Enum {
  constructor(readonly name: string) {}
}

/** One field a line, two blanks deeper in each message. */
export function textProto(message: ProtoMessage, indent = ''): string {
  return Object.entries(message)
    .flatMap(([field, value]) =>
      (Array.isArray(value) ? value : [value]).map((one) =>
        entry(field, one as Exclude<ProtoValue, readonly unknown[]>, indent),
      ),
    )
    .join('')
}

function entry(
  field: string,
  value: Exclude<ProtoValue, readonly unknown[]>,
  indent: string,
): string {
  if (value === undefined) return ''
  if (value instanceof Text) return `${indent}${field}: ${quoted(value.value)}\n`
  if (value instanceof Enum) return `${indent}${field}: ${value.name}\n`
  if (typeof value !== 'object') return `${indent}${field}: ${value}\n`
  return `${indent}${field} {\n${textProto(value as ProtoMessage, `${indent}  `)}${indent}}\n`
}

/** Escapes as the text format has them: octal for control characters, UTF-8 as it is. */
const quoted = (text: string): string =>
  `"${text
    .replace(/[\\"]/g, '\\$&')
    .replaceAll('\n', '\\n')
    .replace(/[\p{Cc}]/gu, (c) => `\\${c.charCodeAt(0).toString(8).padStart(3, '0')}`)}"`
