/**
 * Fields of a multipart form in the syntax of curl's `-F`: a value, `@FILE` to upload a file,
 * `<FILE` to send a file's text. `;type=` and `;filename=` may follow, and `\@` escapes a leading
 * `@`.
 */
import { existsSync, statSync } from 'node:fs'
import { basename, extname } from 'node:path'
import { PayloadError, type Problem } from '../profiler-errors.ts'
import { detectContentType } from './file-types.ts'

/** Values by field name; a list for a field that is sent several times. */
export type FormFields = Readonly<Record<string, string | readonly string[]>>

interface FormField {
  /** `value`: a template. `upload`: a file with a name. `text`: a value read from a file. */
  readonly kind: 'value' | 'upload' | 'text'
  /** The template, or the path of the file. */
  readonly content: string
  /** Content type of the part. Undefined: none, as for plain values. */
  readonly type?: string
  readonly filename?: string
}

/** Content types of uploads, in addition to those in file-types.ts. */
const uploadContentTypes: Readonly<Record<string, string>> = {
  '.txt': 'text/plain',
  '.csv': 'text/csv',
  '.json': 'application/json',
  '.html': 'text/html',
  '.htm': 'text/html',
  '.xml': 'application/xml',
}
const uploadHint =
  "write 'file=@clip.wav', 'file=@clip.wav;type=audio/wav;filename=a.wav' or 'text=<words.txt'; a value that begins with an @: 'text=\\@home'"

/** Lists the fields in order, one entry per value. */
export const listFields = (form: FormFields): [name: string, value: string][] =>
  Object.entries(form).flatMap(([name, values]) =>
    [values].flat().map((value): [string, string] => [name, value]),
  )

/** Replaces every value of a form. */
export const mapFields = (
  form: FormFields,
  replace: (value: string, name: string) => string,
): FormFields =>
  Object.fromEntries(
    Object.entries(form).map(([name, values]) => [
      name,
      typeof values === 'string'
        ? replace(values, name)
        : values.map((value) => replace(value, name)),
    ]),
  )

/** @throws PayloadError for a file without a name, standard input and unknown options */
export function parseField(text: string): FormField {
  if (text.startsWith('@') || text.startsWith('<')) return parseFile(text)
  const literal = /^\\+[@<]/.test(text) ? text.slice(1) : text
  // Only these options: any other `;` belongs to the value.
  const options = /(?:;\s*(?:type|filename)=(?:"[^"]*"|[^;"]*))+$/.exec(literal)
  if (options === null) return { kind: 'value', content: literal }
  return {
    kind: 'value',
    content: literal.slice(0, options.index),
    ...parseOptions(options[0], text),
  }
}

function parseFile(text: string): FormField {
  const [, quotedPath, barePath = '', options = ''] =
    /^.(?:"((?:[^"\\]|\\.)*)"|([^;]*))(.*)$/s.exec(text)!
  const path = quotedPath?.replace(/\\(["\\])/g, '$1') ?? barePath.trim()
  if (path === '') throw new PayloadError(`'${text}' names no file`, uploadHint)
  if (path === '-')
    throw new PayloadError(
      `'${text}' means standard input, which cannot be read for every request`,
      'save it to a file and name the file',
    )
  const attributes = parseOptions(options, text)
  if (text.startsWith('<')) return { kind: 'text', content: path, ...attributes }
  const defaultType =
    detectContentType(path) ??
    uploadContentTypes[extname(path).toLowerCase()] ??
    'application/octet-stream'
  return {
    kind: 'upload',
    content: path,
    type: defaultType,
    filename: basename(path),
    ...attributes,
  }
}

/**
 * Parses `;type=text/plain;charset=utf-8;filename="a b.txt"`: options with unknown names belong to
 * the type.
 */
function parseOptions(options: string, text: string): Pick<FormField, 'type' | 'filename'> {
  const attributes: { type?: string; filename?: string } = {}
  for (const [option, name, quotedValue, bareValue = ''] of options.matchAll(
    /;\s*([\w-]*)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"|([^;]*)))?/g,
  )) {
    const value = quotedValue?.replace(/\\(["\\])/g, '$1') ?? bareValue.trim()
    if ((name === 'type' || name === 'filename') && value !== '') attributes[name] = value
    else if (
      attributes.type !== undefined &&
      attributes.filename === undefined &&
      /^\w+$/.test(name!)
    )
      attributes.type += `; ${name}=${value}`
    else throw new PayloadError(`'${text}': ${option} is unknown`, uploadHint)
  }
  if (attributes.type !== undefined && !/^[\w.+-]+\/[\w.+*-]+(;|$)/.test(attributes.type))
    throw new PayloadError(`'${text}': ${attributes.type} is no content type`, uploadHint)
  return attributes
}

/** Replaces the path of the file of a field; another field is returned unchanged. */
export function replaceFieldPath(text: string, resolvePath: (path: string) => string): string {
  const { kind, content } = parseField(text)
  if (kind === 'value') return text
  const path = resolvePath(content)
  const options = /^.(?:"(?:[^"\\]|\\.)*"|[^;]*)(.*)$/s.exec(text)![1]!
  const writtenPath = /[;"]/.test(path) ? `"${path.replace(/["\\]/g, '\\$&')}"` : path
  return `${text[0]}${writtenPath}${options}`
}

/** Describes what is wrong with the file of a field; undefined where nothing is. */
export function findFieldFileFault(text: string): Problem | undefined {
  const { kind, content } = parseField(text)
  if (kind === 'value') return undefined
  if (!existsSync(content)) return { what: `no file ${content}`, hint: uploadHint }
  const stats = statSync(content)
  if (stats.isDirectory()) return { what: `${content} is a folder`, hint: 'name one file of it' }
  if (stats.size === 0) return { what: `the file ${content} is empty`, hint: 'name another' }
  return undefined
}
