/** Content types of files, by name. */
import { extname } from 'node:path'

/** Content types of files that are sent as complete requests. */
const contentTypes: Readonly<Record<string, string>> = {
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.png': 'image/png',
  '.webp': 'image/webp',
  '.gif': 'image/gif',
  '.bmp': 'image/bmp',
  '.tiff': 'image/tiff',
  '.wav': 'audio/wav',
  '.mp3': 'audio/mpeg',
  '.flac': 'audio/flac',
  '.ogg': 'audio/ogg',
  '.opus': 'audio/ogg',
  '.m4a': 'audio/mp4',
  '.aac': 'audio/aac',
  '.mp4': 'video/mp4',
  '.webm': 'video/webm',
  '.pdf': 'application/pdf',
  '.npy': 'application/x-npy',
  '.pb': 'application/x-protobuf',
  '.bin': 'application/octet-stream',
}

/**
 * Detects the content type of a file that is sent as a complete request, by its name. Undefined for
 * lists of requests or texts, and for unknown types.
 */
export const detectContentType = (path: string): string | undefined =>
  contentTypes[extname(path).toLowerCase()]
