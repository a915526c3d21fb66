/**
 * Builds the bodies of custom requests from the user's template or form: JSON, multipart/form-data,
 * or text of another content type.
 */
import { getHint, readBytes } from '../bounded-reader.ts'
import type { RequestBody } from '../model/target.ts'
import type { ItemSource } from '../payload-source.ts'
import { PayloadError, type Problem } from '../profiler-errors.ts'
import {
  defaultTemplate,
  findFormFault,
  findTemplateFault,
  placeholderHint,
  placeholderPattern,
} from './body-template.ts'
import { type Content, openContent } from './content.ts'
import { type FormFields, listFields, parseField } from './form-fields.ts'
import { sampleBodySizes } from './items.ts'

/** Request body as the user configures it: `form`, or `template` with its content type. */
export interface RequestFormat {
  /**
   * Template with {{text}}, {{image}} and {{int}}, and lists of them. Default {"text": "{{text}}"}.
   */
  readonly template?: string
  /** Content type of the filled template; default application/json. */
  readonly contentType?: string
  /** Fields of multipart/form-data in curl's syntax; {{image}} alone is a file. */
  readonly form?: FormFields
}

const jsonType = 'application/json'
const formUrlencoded = 'application/x-www-form-urlencoded'
/** Boundary between the parts of a form, long enough to occur in none of them. */
const boundary = 'tune-8f2c1b7e9d4a4f0c8a6e5d3b1f7c9a2e'

/** Whether a content type is JSON; a missing one is. */
const isJsonType = (type = jsonType): boolean => /^application\/(.+\+)?json\b/i.test(type)

/** Resolves the value of the Content-Type header. */
export const resolveContentType = ({ form, contentType }: RequestFormat): string =>
  form === undefined ? (contentType ?? jsonType) : `multipart/form-data; boundary=${boundary}`

/** Lists all texts that may have placeholders: the template, or the values of the form's fields. */
export const listTemplates = ({
  form,
  template = defaultTemplate,
}: RequestFormat): readonly string[] =>
  form === undefined
    ? [template]
    : listFields(form).flatMap(([, text]) => {
        const { kind, content } = parseField(text)
        // Files have no placeholders.
        return kind === 'value' ? [content] : []
      })

/** Whether there are no placeholders, so that all requests are the same. */
export const isConstant = (requestFormat: RequestFormat): boolean =>
  !listTemplates(requestFormat).some((template) => template.search(placeholderPattern) >= 0)

/**
 * Describes the first fault of a request format, found by filling in example values; undefined if
 * there is none.
 */
export function findRequestFault(requestFormat: RequestFormat): Problem | undefined {
  try {
    if (requestFormat.form !== undefined) return findFormFault(listTemplates(requestFormat))
  } catch (error) {
    if (!(error instanceof PayloadError)) throw error
    return { what: error.message, hint: error.hint! }
  }
  const { template, contentType } = requestFormat
  if (template === undefined) return undefined
  return isJsonType(contentType) ? findTemplateFault(template) : findFormFault([template])
}

/**
 * Builds the first request of a source, as an example for the user.
 * @throws PayloadError
 */
export async function buildExampleRequest(
  requestFormat: RequestFormat,
  source: ItemSource,
): Promise<RequestBody> {
  const content = await openContent(source)
  const body = await fillRequest(requestFormat, {
    content,
    // Size of the first request.
    listLength: sampleBodySizes(source, content.itemCount)[0]!,
    nextInt: () => 1,
  })
  return { contentType: resolveContentType(requestFormat), body }
}

/**
 * Values for the placeholders of one request: its content, the length of a list such as {{texts}},
 * and the next {{int}}.
 */
interface TemplateValues {
  readonly content: Content
  readonly listLength: number
  readonly nextInt: () => number
}

/**
 * Builds the bytes of one request.
 * @throws PayloadError for an unknown placeholder, for several items without a list placeholder,
 * and for a JSON template whose result is not JSON
 */
export async function fillRequest(
  requestFormat: RequestFormat,
  values: TemplateValues,
): Promise<Buffer> {
  const { form, template = defaultTemplate, contentType } = requestFormat
  const hasList = listTemplates(requestFormat).some((text) => listPlaceholderPattern.test(text))
  if (values.listLength > 1 && !hasList)
    throw new PayloadError(
      `the body template has one item, and requests have ${values.listLength}`,
      'write a list: {"texts": {{texts}}}',
    )
  if (form !== undefined) return buildMultipart(form, values)
  if (!isJsonType(contentType)) return buildPlainBody(template, contentType!, values)
  const text = await fillTemplate(template, values, escapeInQuotes)
  try {
    return Buffer.from(JSON.stringify(JSON.parse(text)))
  } catch (error) {
    throw new PayloadError(
      `the body template is not JSON once filled in: ${(error as Error).message}`,
      `for example ${defaultTemplate}`,
    )
  }
}

/** Plural placeholder, for example {{texts}}. */
const listPlaceholderPattern = /\{\{\s*\w+s\s*\}\}/

/** Escapes a text for a JSON string whose quotes are in the template. */
const escapeInQuotes = (text: string): string => JSON.stringify(text).slice(1, -1)
/** A part or body with {{image}} alone: sent as raw bytes, not base64. */
const imageOnlyPattern = /^\s*\{\{\s*image\s*\}\}\s*$/

async function buildPlainBody(
  template: string,
  type: string,
  values: TemplateValues,
): Promise<Buffer> {
  if (imageOnlyPattern.test(template)) return values.content.nextImage()
  const escapeText = type.startsWith(formUrlencoded) ? encodeURIComponent : (text: string) => text
  return Buffer.from(await fillTemplate(template, values, escapeText))
}

async function buildMultipart(form: FormFields, values: TemplateValues): Promise<Buffer> {
  const parts: Buffer[] = []
  for (const [name, text] of listFields(form)) {
    const { bytes, type, filename } = await buildPart(text, values)
    const file = filename === undefined ? '' : `; filename="${escapeFormName(filename)}"`
    parts.push(
      Buffer.from(
        `--${boundary}\r\nContent-Disposition: form-data; name="${escapeFormName(name)}"${file}\r\n`,
      ),
      Buffer.from(`${type === undefined ? '' : `Content-Type: ${type}\r\n`}\r\n`),
      bytes,
      Buffer.from('\r\n'),
    )
  }
  return Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)])
}

/** Escapes a name for Content-Disposition, as browsers do. */
const escapeFormName = (text: string): string =>
  text.replaceAll('"', '%22').replaceAll('\r', '%0D').replaceAll('\n', '%0A')

async function buildPart(
  text: string,
  values: TemplateValues,
): Promise<{ readonly bytes: Buffer; readonly type?: string; readonly filename?: string }> {
  const { kind, content, ...attributes } = parseField(text)
  if (kind !== 'value') return { bytes: readFormFile(content), ...attributes }
  if (!imageOnlyPattern.test(content))
    return {
      bytes: Buffer.from(await fillTemplate(content, values, (value) => value)),
      ...attributes,
    }
  const bytes = await values.content.nextImage()
  const type = bytes[0] === 0x89 ? 'image/png' : 'image/jpeg'
  return { bytes, type, filename: type === 'image/png' ? 'image.png' : 'image.jpg', ...attributes }
}

/** @throws PayloadError for an unreadable file */
function readFormFile(path: string): Buffer {
  try {
    return readBytes(path, 'data')
  } catch (error) {
    throw new PayloadError(
      `the form's file ${path} cannot be read: ${(error as Error).message}`,
      getHint(error),
    )
  }
}

/**
 * Fills the placeholders of a template. A plural name, as in {{texts}}, becomes a JSON list.
 * @param escapeText escapes a text for the format of the template
 */
async function fillTemplate(
  template: string,
  { content, listLength, nextInt }: TemplateValues,
  escapeText: (text: string) => string,
): Promise<string> {
  const nextValue = async (name: string): Promise<string> => {
    if (name === 'text') return escapeText(content.nextText())
    if (name === 'image') return (await content.nextImage()).toString('base64')
    if (name === 'int') return String(nextInt())
    throw new PayloadError(
      `the body template has the unknown placeholder {{${name}}}`,
      placeholderHint,
    )
  }
  let text = ''
  let end = 0
  for (const match of template.matchAll(placeholderPattern)) {
    const [matched, name = ''] = match
    const singular = name.replace(/s$/, '')
    text += template.slice(end, match.index)
    if (singular === name) text += await nextValue(name)
    else {
      const values: string[] = []
      for (let i = 0; i < listLength; i++) values.push(await nextValue(singular))
      const elements = values.map((value) => (singular === 'int' ? value : `"${value}"`))
      text += `[${elements.join(', ')}]`
    }
    end = match.index + matched.length
  }
  return text + template.slice(end)
}
