// Draws a splat PLY with Spark, the web viewer, from each camera of /job.json, and posts the pictures.
//
// The job: { spark: options of SparkRenderer, views: [{ width, height, projection, world_from_camera }] }; matrices are
// lists of 16 numbers, row by row, and cameras have OpenGL axes. A picture is the canvas as it is shown: premultiplied over
// black, RGBA of 8 bits, its lowest row first.
import * as THREE from "three";
import { SparkRenderer, SplatMesh } from "@sparkjsdev/spark";

const STILL_FRAMES = 3; // the sort runs beside the frames: a picture counts when this many in a row are the same
const FRAMES_MAX = 600;

const post = (path, body) => fetch(path, { method: "POST", body });
const frame = () => new Promise((resolve) => setTimeout(resolve, 20));

function cameraOf(view) {
  const camera = new THREE.PerspectiveCamera();
  camera.matrixWorldAutoUpdate = false;
  camera.matrixAutoUpdate = false;
  camera.matrix.set(...view.world_from_camera);
  camera.matrix.decompose(camera.position, camera.quaternion, camera.scale);
  camera.matrixWorld.copy(camera.matrix);
  camera.matrixWorldInverse.copy(camera.matrix).invert();
  camera.projectionMatrix.set(...view.projection);
  camera.projectionMatrixInverse.copy(camera.projectionMatrix).invert();
  return camera;
}

function read(renderer, view) {
  const gl = renderer.getContext();
  const pixels = new Uint8Array(view.width * view.height * 4);
  gl.readPixels(0, 0, view.width, view.height, gl.RGBA, gl.UNSIGNED_BYTE, pixels);
  return pixels;
}

async function picture(renderer, spark, scene, view) {
  const camera = cameraOf(view);
  renderer.setSize(view.width, view.height, false);
  let last = null;
  let same = 0;
  for (let number = 0; number < FRAMES_MAX; number++) {
    await spark.update({ scene, camera });
    renderer.render(scene, camera);
    const pixels = read(renderer, view);
    same = last !== null && pixels.every((value, place) => value === last[place]) ? same + 1 : 0;
    if (same >= STILL_FRAMES && !spark.sorting) return pixels;
    last = pixels;
    await frame();
  }
  throw new Error(`the picture still changes after ${FRAMES_MAX} frames`);
}

async function main() {
  const job = await (await fetch("/job.json")).json();
  const renderer = new THREE.WebGLRenderer({ antialias: false, alpha: true, preserveDrawingBuffer: true });
  renderer.setPixelRatio(1);
  renderer.setClearColor(0x000000, 0);
  const scene = new THREE.Scene();
  const spark = new SparkRenderer({ renderer, ...job.spark });
  const mesh = new SplatMesh({ url: "/splats.ply", ...job.mesh });
  scene.add(spark, mesh);
  await mesh.initialized;
  for (const [number, view] of job.views.entries()) {
    await post(`/picture/${number}`, await picture(renderer, spark, scene, view));
  }
  await post("/done", JSON.stringify({ splats: mesh.splats?.getNumSplats() ?? 0 }));
}

main().catch((error) => fail(error?.stack ?? error));
