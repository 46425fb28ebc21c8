# DAHL with everything its experiments need, at fixed versions (flake.lock).
#
#   nix run .#experiment -- experiments/pytorch.toml     an experiment, PyTorch included
#   nix build                                            the program
#   nix develop                                          a shell with the tools of all tests
#
# Nobody has built this yet: it was written without a network. What was checked, and how, is in docs/guide/experiments.md.
{
  description = "DAHL: neural networks as graphs of tasks, with the least electricity";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-25.11";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
      torch = pkgs: pkgs.python3.withPackages (python: [ python.torch python.numpy ]);
      dahl = pkgs: pkgs.rustPlatform.buildRustPackage {
        pname = "dahl";
        version = (builtins.fromTOML (builtins.readFile ./Cargo.toml)).workspace.package.version;
        src = self;
        cargoLock.lockFile = ./Cargo.lock;
        cargoBuildFlags = [ "-p" "dahl-cli" ];
        # StarPU as an engine, for the experiments that compare schedulers.
        buildFeatures = [ "starpu" ];
        nativeBuildInputs = [ pkgs.pkg-config ];
        buildInputs = [ pkgs.starpu ];
        # The tests want a browser, two MPIs and an OpenCL driver: run scripts/test in the development shell.
        doCheck = false;
        meta.mainProgram = "dahl";
      };
      # What the program loads while it runs, and no linker path knows: MPI, and OpenCL, which finds the drivers itself.
      loaded = pkgs: pkgs.lib.makeLibraryPath [ pkgs.openmpi pkgs.ocl-icd ];
      experiment = pkgs: pkgs.writeShellApplication {
        name = "experiment";
        # Python starts the nodes of DAHL, too.
        runtimeInputs = [ (dahl pkgs) (torch pkgs) pkgs.git pkgs.openmpi ];
        text = ''
          export DAHL_TORCH_PYTHON=${torch pkgs}/bin/python3
          export LD_LIBRARY_PATH=${loaded pkgs}''${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
          exec dahl experiment run "$@"
        '';
      };
    in
    {
      packages = each (pkgs: {
        default = dahl pkgs;
        experiment = experiment pkgs;
      });

      apps = each (pkgs: {
        experiment = {
          type = "app";
          program = "${experiment pkgs}/bin/experiment";
        };
      });

      devShells = each (pkgs: {
        default = pkgs.mkShell {
          packages = [
            pkgs.cargo
            pkgs.rustc
            pkgs.clippy
            pkgs.rustfmt
            pkgs.cargo-nextest
            pkgs.pkg-config
            (torch pkgs)
            # GPUs without a GPU, the pages, several nodes, the peers of tasks, other simulators.
            pkgs.pocl
            pkgs.ocl-icd
            pkgs.chromium
            pkgs.openmpi
            pkgs.iproute2
            pkgs.starpu
            pkgs.onetbb
            pkgs.simgrid
            pkgs.valgrind
            (pkgs.texliveSmall.withPackages (tex: [ tex.pgfplots tex.booktabs ]))
          ];
          shellHook = ''
            export DAHL_TORCH_PYTHON=${torch pkgs}/bin/python3
            export LD_LIBRARY_PATH=${loaded pkgs}''${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
            export OCL_ICD_VENDORS=${pkgs.pocl}/etc/OpenCL/vendors
          '';
        };
      });
    };
}
